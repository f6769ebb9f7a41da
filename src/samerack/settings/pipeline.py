"""Settings of the fleet pipeline: where it runs, what it reads and where its tables are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from samerack.settings.base import Names, Seconds, Section, Texts


class PipelineSettings(Section):
    """The fleet on Spark."""

    master: str = Field(
        default="",
        description="Spark master: `local[2]`, `spark://HOST:7077`, `k8s://...`, `yarn`. Empty: that of "
        "`spark-submit`, else `local[*]`.",
    )
    conf: Texts = Field(
        default_factory=dict,
        description="Any Spark setting; overrides samerack's.",
        examples=[{"spark.driver.memory": "4g"}],
    )
    jars: Names = Field(
        default=(),
        description="Jars for Kafka and Delta, or a folder of them. Empty: those of the image, or what "
        "`scripts/setup --pipeline` fetched.",
        examples=[["s3a://bucket/samerack/jars/delta-storage-4.4.0.jar"]],
    )
    start_seconds: Seconds = Field(
        default=60.0, description="Maximum wait for a standalone master and its first worker."
    )
    tables: str = Field(
        default="samerack-tables",
        description="Folder or address of the tables, which all workers must be able to reach; or an existing schema "
        "in a Spark catalogue, as CATALOGUE.SCHEMA.",
        examples=["s3a://bucket/samerack", "spark_catalog.fleet"],
    )
    checkpoint: str = Field(
        default="",
        description="The stream's checkpoint, which belongs to the tables. Empty: the folder `_checkpoint` beside "
        "them.",
    )
    traffic_topic: str = Field(
        default="samerack-traffic", min_length=1, description="Topic to which agents publish traffic samples."
    )
    states_topic: str = Field(
        default="samerack-states", min_length=1, description="Topic to which agents publish group states."
    )
    trigger_seconds: Seconds = Field(default=30.0, description="Time between the starts of two batches.")
    batch_records: int = Field(default=2_000_000, ge=1, description="Maximum records in one batch.")
    late_days: int = Field(
        default=30, ge=1, le=36_500, description="Maximum age in days; older records are rejected as bad."
    )
    lost_records: Literal["stop", "skip"] = Field(
        default="stop", description="If unread records are gone from Kafka: `stop` with an error, or `skip` them."
    )
    traffic_days: int = Field(default=400, ge=1, description="Days that `traffic_by_minute` keeps.")
    states_days: int = Field(default=90, ge=1, description="Days that `group_states` keeps.")
    owners: dict[str, str] = Field(
        default_factory=dict,
        description="Who pays for a group: maps shell patterns of group names to owners such as teams; the first match "
        "wins.",
        examples=[{"orders-*": "team-orders"}],
    )
