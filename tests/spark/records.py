"""Records and frames of them, for the tests on Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from common.records import GroupState, MemberState, TopicState, TrafficSample, encode
from common.settings.pipeline import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS: Final = PipelineSettings()
MINUTE: Final = 60_000
START: Final = int(datetime(2025, 11, 1, 12, tzinfo=UTC).timestamp() * 1000)


def sample(number: int, **changes: Any) -> bytes:
    """A good sample, with fields as they are to be in JSON."""
    record = TrafficSample(
        id=f"sample-{number}",
        agent="agent@host",
        cluster="east",
        group="orders",
        topic="clicks",
        client_rack="rack-a",
        replica_rack="rack-b",
        method="exact",
        window_start=START,
        window_end=START + MINUTE,
        bytes=1000,
        records=10,
    )
    return _changed(encode(record), changes)


def state(number: int, **changes: Any) -> bytes:
    """A good state of a group with one member and one topic of two partitions."""
    record = GroupState(
        id=f"state-{number}",
        agent="agent@host",
        cluster="east",
        group="orders",
        at=START,
        kind="classic",
        state="Stable",
        assignor="range",
        role="leading",
        rack_aware_fetch=None,
        racks=("rack-a", "rack-b"),
        broker_racks=2,
        members=(MemberState(id="m-1", client_id="app", rack=0, fetches_with_rack=True, topics=(0,)),),
        topics=(TopicState(name="clicks", replicas=((0, 1), (1, 0)), owner=(0, -1), bytes_per_second=(1.5, 2.0)),),
    )
    return _changed(encode(record), changes)


def _changed(record: bytes, changes: dict[str, Any]) -> bytes:
    fields = {**json.loads(record), **changes}
    return json.dumps({key: value for key, value in fields.items() if value is not ...}).encode()


def raw(spark: SparkSession, *, samples: Sequence[bytes | None] = (), states: Sequence[bytes | None] = ()) -> DataFrame:
    """Rows as Spark's Kafka source gives them: offsets count from 0 in partition 0 of each topic."""
    rows = [
        (topic, 0, offset, None if value is None else bytearray(value))
        for topic, values in ((SETTINGS.traffic_topic, samples), (SETTINGS.states_topic, states))
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, "topic string, partition int, offset long, value binary")
