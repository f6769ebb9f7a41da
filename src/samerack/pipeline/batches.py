"""Writes parsed records to their tables, and records of the quarantine that are good by now.

A batch has a writer and a number, by which each table takes it once, however often it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.pipeline import tables
from samerack.pipeline.parsing import BAD, SAMPLE, STATE, digest, parsed, quarantined, states, traffic
from samerack.pipeline.schema import BAD_A_DAY, KEPT_BYTES, QUARANTINE
from samerack.settings.pipeline import PipelineSettings

_ROWS_OF_A_FILE: Final[Mapping[str, int]] = {SAMPLE: 200_000, STATE: 10_000, BAD: 10_000}
"""Files of up to some ten megabytes: not too small to read, and enough of them for a large batch to use all cores."""
_AGAIN: Final = "samerack.again"
"""The property of `quarantine` that names the writer of records that are good by now, until they are out of it."""


def write(records: DataFrame, settings: PipelineSettings, *, writer: str, number: int) -> Mapping[str, int]:
    """Write a batch of parsed records, which are computed several times unless they are kept; return counts by sort."""
    counts = {row["sort"]: row["count"] for row in records.groupBy("sort").count().collect()}
    spark = records.sparkSession
    with tables.transaction(spark, writer=writer, number=number, late_days=settings.late_days):
        if SAMPLE in counts:
            tables.append(_in_files(traffic(records), counts[SAMPLE], SAMPLE), settings, "traffic_by_minute")
        if STATE in counts:
            tables.append(_in_files(states(records), counts[STATE], STATE), settings, "group_states")
        if BAD in counts:
            bad = _limited(quarantined(records), settings, counts[BAD])
            tables.append(_in_files(bad, counts[BAD], BAD), settings, "quarantine")
    return counts


def _in_files(rows: DataFrame, count: int, sort: str) -> DataFrame:
    """Return the rows in as few parts as their number needs: each part becomes a file for each day.

    A cluster has two hundred parts by default, and Spark merges small ones by itself in no stream with a state.
    """
    return rows.coalesce(-(-count // _ROWS_OF_A_FILE[sort]))


def _limited(bad: DataFrame, settings: PipelineSettings, count: int) -> DataFrame:
    """Return this number of bad records as long as the day has room, and the number of the others in one row."""
    there = tables.read(bad.sparkSession, settings, "quarantine").where(F.col("day") >= F.current_date()).count()
    room = max(BAD_A_DAY - there, 0)
    if count <= room:
        return bad
    known = {
        "reason": F.lit(f"more than {BAD_A_DAY} bad records on a day"),
        "at": F.max("at"),
        "day": F.max("day"),
        "records": F.lit(count - room).cast("long"),
    }
    others = (known.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name) for field in QUARANTINE)
    return bad.limit(room).unionByName(bad.agg(*others))


def again(spark: SparkSession, settings: PipelineSettings) -> tuple[int, int]:
    """Count the records in quarantine that are good by now, each once, and take them out of it.

    To be called while no stream writes. If it is killed, the next call first completes what it began.

    Returns:
        How many records now count, and how many rows stay in quarantine.

    Raises:
        AgentError: The tables are missing, cannot be read, or belong to another checkpoint.
    """
    tables.create(spark, settings)
    tables.check_checkpoint(spark, settings)
    judged = f"{tables.checkpoint(settings)}/again"
    begun = tables.properties(spark, settings, "quarantine").get(_AGAIN)
    counted = 0 if begun is None else _count(spark.read.parquet(judged), settings, begun)
    # of a record that is longer only the beginning is there
    whole = tables.read(spark, settings, "quarantine").where(F.length("raw") < KEPT_BYTES)
    ours = F.col("topic").isin(settings.traffic_topic, settings.states_topic)
    kept = whole.where(ours).select("topic", "partition", "offset", F.col("raw").alias("value"))
    good = parsed(kept, settings).where(F.col("sort") != BAD).dropDuplicates(["sort", "key"]).drop("seen", "bad")
    # judged once: where a kill is completed later, or with other settings, just these are counted and taken out
    good.write.mode("overwrite").parquet(judged)
    found = spark.read.parquet(judged)
    if not found.isEmpty():
        writer = f"samerack/again/{uuid4()}"
        tables.set_property(spark, settings, "quarantine", _AGAIN, writer)
        counted += _count(found, settings, writer)
    return counted, tables.read(spark, settings, "quarantine").count()


def _count(good: DataFrame, settings: PipelineSettings, writer: str) -> int:
    """Write good records of the quarantine to their tables, and delete them there; returns how many."""
    spark = good.sparkSession
    counts = write(good, settings, writer=writer, number=0)
    topic = F.when(F.col("sort") == SAMPLE, settings.traffic_topic).otherwise(settings.states_topic)
    found = good.select(topic.alias("topic"), "key").alias("good")
    same = (F.col("kept.topic") == F.col("good.topic")) & (digest(F.col("kept.raw")) == F.col("good.key"))

    def delete() -> None:
        table = tables.opened(spark, settings, "quarantine").alias("kept")
        table.merge(found, same).whenMatchedDelete().execute()

    tables.patiently(delete)
    tables.set_property(spark, settings, "quarantine", _AGAIN, None)
    return sum(counts.values())
