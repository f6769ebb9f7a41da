"""Splits a group's day into chapters: one state represents all as long as members, racks, replicas and owners stay.

For each chapter Spark computes the plan of the group's own assignor and the best plan, in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DateType, StructType, TimestampType

from samerack.common.records import LEADING
from samerack.pipeline.report.figures import GROUP, GROUP_DAY
from samerack.pipeline.report.shares import ShareFacts
from samerack.pipeline.schema import COUNT, TEXT, shape, state_as_json

_TASKS_PER_CORE: Final = 8
"""Groups differ in size: small tasks keep all cores busy to the end, and show progress."""
_MAX_SENT: Final = 500_000
"""Chapters that are sent to every worker: about 60 MB."""

_KEYS: Final = shape(day=DateType(), cluster=TEXT, group=TEXT, first=TimestampType(), states=COUNT)
_FACTS: Final = {
    "kind": pa.string(),
    "assignor": pa.string(),
    "role": pa.string(),
    "members": pa.int32(),
    "rackless": pa.int32(),
    "sending": pa.int32(),
    "fetching": pa.int32(),
    "random": pa.float64(),
    "present": pa.float64(),
    "expected": pa.float64(),
    "own": pa.float64(),
    "possible": pa.float64(),
    "error": pa.string(),
}
CHAPTER: Final = StructType([*_KEYS, *shape(**{name: from_arrow_type(kind) for name, kind in _FACTS.items()})])
"""One chapter: its number of states, and cross-rack shares of the bytes of known racks: `random` for placement that
ignores racks, `present`, `own` for the group's own assignor (led groups), `possible` for the best plan that an agent
could lead it with. `expected` is the present share of all bytes, with `random` for those of unknown rack."""


def _structure() -> Column:
    """Return a hash of a state without its rates, which change all the time."""
    topics = F.transform("topics", lambda topic: F.struct(topic["name"], topic["replicas"], topic["owner"]))
    same = ("kind", "assignor", "role", "rack_aware_fetch", "racks", "broker_racks", "members")
    return F.xxhash64(*(F.col(name) for name in same), topics)


def from_one_agent(states: DataFrame) -> DataFrame:
    """Return the states of one agent for each group and minute, preferably the leading one; only the columns needed.

    Returns:
        day, cluster, group, id, at, structure.
    """
    leads = F.col("role") == LEADING
    light = states.select(*GROUP_DAY, "id", "at", "agent", leads.alias("leads"), _structure().alias("structure"))
    # a window, unlike a list of the minute's states, need not fit into memory
    minute = Window.partitionBy(*GROUP_DAY, F.date_trunc("minute", F.col("at")))
    chosen = light.withColumn("chosen", F.max(F.struct("leads", "agent")).over(minute)["agent"])
    return chosen.where(F.col("agent") == F.col("chosen")).select(*GROUP_DAY, "id", "at", "structure")


def picked(states: DataFrame, keep: Callable[[DataFrame], DataFrame] = lambda frame: frame) -> DataFrame:
    """Return the last state of each chapter, as JSON: day, cluster, group, first, states, value; dealt out by group.

    Args:
        states: rows of `group_states`.
        keep: keeps a frame that is read twice, until the caller is done.
    """
    chapters = keep(
        from_one_agent(states)
        .groupBy(*GROUP_DAY, "structure")
        .agg(
            F.min("at").alias("first"),
            F.count(F.lit(1)).alias("states"),
            F.max(F.struct("at", "id"))["id"].alias("id"),
        )
    )
    # states are large and chapters small: where these fit into every worker, the others need not be sent around
    few = chapters.count() <= _MAX_SENT
    found = states.withColumn("structure", _structure()).join(
        F.broadcast(chapters) if few else chapters, [*GROUP_DAY, "id", "structure"]
    )
    values = found.select(*GROUP_DAY, "first", "states", "structure", state_as_json().alias("value"))
    tasks = states.sparkSession.sparkContext.defaultParallelism * _TASKS_PER_CORE
    # a publisher may give one id to many states: each chapter must still be one row
    return values.repartition(tasks, *GROUP).dropDuplicates([*GROUP_DAY, "structure"]).drop("structure")


def worked_out(chapters: DataFrame) -> DataFrame:
    """Return the shares of every picked chapter: rows of CHAPTER."""
    # the chapters of a group in a row: most differ in their rates only
    return chapters.sortWithinPartitions(*GROUP, "first").mapInArrow(_work, CHAPTER)


def _work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    shares = ShareFacts()
    for batch in batches:
        rows = [shares.row_of(text) for text in batch.column("value").to_pylist()]
        facts = [pa.array([row.get(name) for row in rows], kind) for name, kind in _FACTS.items()]
        keys = [batch.column(name) for name in _KEYS.names]
        yield pa.RecordBatch.from_arrays([*keys, *facts], names=CHAPTER.names)
