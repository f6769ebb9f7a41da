"""Writes parsed records to their tables, and records of the quarantine that are good by now.

A batch has a writer and a number, by which each table takes it once, however often it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.pipeline import tables
from samerack.pipeline.parsing import BAD, SAMPLE, STATE, by_minute, parsed, quarantined, states
from samerack.pipeline.schema import BAD_A_DAY, KEPT_BYTES, QUARANTINE
from samerack.settings.pipeline import PipelineSettings

_MINUTE: Final = "yyyy-MM-dd HH:mm"
_AGAIN: Final = "samerack/again"
"""The writer of records that were bad, and their batch's number is the version of the table that they are read from."""
_BEGUN: Final = "samerack.again"
"""The property of `quarantine` that has this number, until the records are in their tables and out of this one."""


def write(records: DataFrame, settings: PipelineSettings, *, writer: str, number: int) -> Mapping[str, int]:
    """Write a batch of parsed records, which are computed several times unless they are kept; return counts by sort."""
    found = _found(records)
    with tables.transaction(records.sparkSession, writer=writer, number=number):
        if SAMPLE in found:
            tables.add(by_minute(records), settings, within=_within(found[SAMPLE]))
        if STATE in found:
            tables.append(states(records), settings, "group_states")
        if BAD in found:
            tables.append(_limited(quarantined(records), settings, found[BAD]), settings, "quarantine")
    return {sort: sum(row["count"] for row in rows) for sort, rows in found.items()}


def _found(records: DataFrame) -> dict[str, list[Row]]:
    """Return for each sort in a batch one row a day: count, first and last minute as text in the session's zone."""
    ends = (F.date_format(end("moment"), _MINUTE).alias(name) for name, end in (("first", F.min), ("last", F.max)))
    sums = (F.count(F.lit(1)).alias("count"), *ends)
    found: dict[str, list[Row]] = {}
    for row in records.groupBy("sort", "day").agg(*sums).collect():
        found.setdefault(row["sort"], []).append(row)
    return found


def _within(days: Iterable[Row]) -> str:
    """Return a condition on the rows of `traffic_by_minute` to read: a late record must not cause a full read."""
    parts = (
        f"(kept.day = DATE'{row['day']}' AND kept.minute BETWEEN TIMESTAMP'{row['first']}' "
        f"AND TIMESTAMP'{row['last']}')"
        for row in days
    )
    return f"({' OR '.join(parts)})"


def _limited(bad: DataFrame, settings: PipelineSettings, found: Sequence[Row]) -> DataFrame:
    """Return bad records as long as their day, the batch's, has room, and the number of the others in one row."""
    today, count = min(row["day"] for row in found), sum(row["count"] for row in found)
    there = tables.read(bad.sparkSession, settings, "quarantine").where(F.col("day") >= F.lit(today)).count()
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
    begun = tables.properties(spark, settings, "quarantine").get(_BEGUN)
    counted = 0 if begun is None else _again(spark, settings, int(begun))
    counted += _again(spark, settings, tables.version(spark, settings, "quarantine"))
    return counted, tables.read(spark, settings, "quarantine").count()


def _again(spark: SparkSession, settings: PipelineSettings, version: int) -> int:
    """Count the records of one version of the quarantine that are good, and delete them; returns how many."""
    # of a record that is longer only the beginning is there
    whole = tables.read(spark, settings, "quarantine", version=version).where(F.length("raw") < KEPT_BYTES)
    ours = F.col("topic").isin(settings.traffic_topic, settings.states_topic)
    kept = whole.where(ours).select("topic", "partition", "offset", F.col("raw").alias("value"))
    good = parsed(kept, settings).where(F.col("wrong").isNull()).dropDuplicates(["sort", "key"]).persist()
    try:
        if good.isEmpty():
            return 0
        tables.set_property(spark, settings, "quarantine", _BEGUN, str(version))
        counts = write(good, settings, writer=_AGAIN, number=version)
        topic = F.when(F.col("sort") == SAMPLE, settings.traffic_topic).otherwise(settings.states_topic)
        found = good.select(topic.alias("topic"), "key").alias("good")
        same = "kept.topic = good.topic AND sha2(kept.raw, 256) = good.key"

        def delete() -> None:
            table = tables.opened(spark, settings, "quarantine").alias("kept")
            table.merge(found, same).whenMatchedDelete().execute()

        tables.patiently(delete)
        tables.set_property(spark, settings, "quarantine", _BEGUN, None)
        return sum(counts.values())
    finally:
        good.unpersist()
