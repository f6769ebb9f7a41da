"""Splits a group's day into chapters: one state represents all as long as members, racks, replicas and owners stay.

For each chapter Spark computes the plan of the group's own assignor and the best plan, in parallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pydantic import ValidationError
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from samerack.assignors.model import AssignmentError
from samerack.common.errors import one_line
from samerack.common.records import LEADING, UNKNOWN, GroupState
from samerack.pipeline.problem import LEADABLE, Crossing, Group, StateError, crossing, group_of, led_plan, own, present
from samerack.pipeline.report.figures import GROUP, GROUP_DAY
from samerack.pipeline.schema import GROUP_STATE

_TASKS_PER_CORE: Final = 8
"""Groups differ in size: small tasks keep all cores busy to the end, and show progress."""

_KEYS: Final = StructType(
    [
        StructField("day", DateType()),
        StructField("cluster", StringType()),
        StructField("group", StringType()),
        StructField("first", TimestampType()),
        StructField("states", LongType()),
    ]
)
_FACTS: Final = {
    "kind": pa.string(),
    "assignor": pa.string(),
    "role": pa.string(),
    "members": pa.int32(),
    "rackless": pa.int32(),
    "telling": pa.int32(),
    "fetching": pa.int32(),
    "random": pa.float64(),
    "present": pa.float64(),
    "expected": pa.float64(),
    "own": pa.float64(),
    "possible": pa.float64(),
    "error": pa.string(),
}
CHAPTER: Final = StructType(
    [*_KEYS.fields, *(StructField(name, from_arrow_type(kind)) for name, kind in _FACTS.items())]
)
"""One chapter: its number of states, and cross-rack shares of the bytes of known racks: `random` for placement that
ignores racks, `present`, `own` for the group's own assignor (led groups), `possible` for the best plan that an agent
could lead it with. `expected` is the present share of all bytes, with `random` for those of unknown rack."""


def _structure() -> Column:
    """Returns a hash of a state without its rates, which change all the time."""
    topics = F.transform("topics", lambda topic: F.struct(topic["name"], topic["replicas"], topic["owner"]))
    same = ("kind", "assignor", "role", "rack_aware_fetch", "racks", "broker_racks", "members")
    return F.xxhash64(*(F.col(name) for name in same), topics)


def from_one_agent(states: DataFrame) -> DataFrame:
    """Returns the states of one agent for each group and minute, preferably the leading one; only the columns needed.

    Returns:
        day, cluster, group, id, at, structure.
    """
    leads = F.col("role") == LEADING
    light = states.select(*GROUP_DAY, "id", "at", "agent", leads.alias("leads"), _structure().alias("structure"))
    # a window, unlike a list of the minute's states, need not fit into memory
    minute = Window.partitionBy(*GROUP_DAY, F.date_trunc("minute", F.col("at")))
    chosen = light.withColumn("chosen", F.max(F.struct("leads", "agent")).over(minute)["agent"])
    return chosen.where(F.col("agent") == F.col("chosen")).select(*GROUP_DAY, "id", "at", "structure")


def picked(states: DataFrame) -> DataFrame:
    """Returns the last state of each chapter, as JSON: day, cluster, group, first, states, value."""
    chapters = (
        from_one_agent(states)
        .groupBy(*GROUP_DAY, "structure")
        .agg(
            F.min("at").alias("first"),
            F.count(F.lit(1)).alias("states"),
            F.max(F.struct("at", "id"))["id"].alias("id"),
        )
    )
    columns = [
        F.unix_millis("at").alias("at") if name == "at" else F.col(f"`{name}`") for name in GROUP_STATE.fieldNames()
    ]
    # the contract requires fields that are null too
    text = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    values = states.select(*GROUP_DAY, "id", _structure().alias("structure"), text.alias("value"))
    # a publisher may give one id to many states: each chapter must still be one row
    found = chapters.join(values, [*GROUP_DAY, "id", "structure"]).dropDuplicates([*GROUP_DAY, "structure"])
    return found.select(*GROUP_DAY, "first", "states", "value")


def worked_out(chapters: DataFrame) -> DataFrame:
    """Returns the shares of every picked chapter: rows of CHAPTER."""
    tasks = chapters.sparkSession.sparkContext.defaultParallelism * _TASKS_PER_CORE
    return chapters.repartition(tasks, *GROUP).mapInArrow(_work, CHAPTER)


def _work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [row_of(text) for text in batch.column("value").to_pylist()]
        facts = [pa.array([row.get(name) for row in rows], kind) for name, kind in _FACTS.items()]
        keys = [batch.column(name) for name in _KEYS.names]
        yield pa.RecordBatch.from_arrays([*keys, *facts], names=CHAPTER.names)


def row_of(text: str) -> dict[str, Any]:
    """Returns the facts of one state; only `error` where they cannot be computed."""
    try:
        return _shares(GroupState.model_validate_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        return {"error": f"no state: {'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"}
    except (StateError, AssignmentError) as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - an error in one group must not stop the others
        return {"error": one_line(error)}


def _shares(state: GroupState) -> dict[str, Any]:
    group = group_of(state)
    now = present(group)
    racks = state.broker_racks
    random = 1 - 1 / racks if racks else 0.0
    reads = now.known + now.unknown
    led = state.role == LEADING
    tells = [member.tells_rack for member in state.members]
    return {
        "kind": state.kind,
        "assignor": state.assignor,
        "role": state.role,
        "members": len(state.members),
        "rackless": sum(member.rack == UNKNOWN for member in state.members),
        "telling": None if None in tells else sum(filter(None, tells)),
        "fetching": sum(member.fetches_with_rack for member in state.members),
        "random": random,
        "present": now.share if now.known else None,
        "expected": (now.crossing + now.unknown * random) / reads if reads else None,
        "own": _share(own(group, state.assignor)) if led else None,
        "possible": _possible(group, state, now),
    }


def _possible(group: Group, state: GroupState, now: Crossing) -> float | None:
    if not now.known:
        return None
    if not now.crossing or state.kind not in LEADABLE:
        return now.share
    return min(now.share, crossing(group, led_plan(group.problem, state.assignor)).share)


def _share(reads: Crossing | None) -> float | None:
    return reads.share if reads is not None and reads.known else None
