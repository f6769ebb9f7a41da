"""Splits a group's day into chapters: one state represents all while members, racks, replicas and owners stay.

For each chapter Spark computes the cross-rack shares of the plan in force, of the group's own assignor's, and of the
best one, in parallel. The chapters of a group mostly differ in rates only. Own assignors know no rates, so their plan
is computed once for all such chapters in a row. The best plan depends on rates, unless a plan reads across racks only
what every plan must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DateType, StructType, TimestampType

from samerack.assignors.consumer.registry import own_plan
from samerack.assignors.evaluate import cross_rack_mask
from samerack.assignors.problem import NOBODY, BoolArray, Problem
from samerack.common.records import LEADING, UNKNOWN, GroupState
from samerack.pipeline.days import GROUP, GROUP_DAY
from samerack.pipeline.problem import (
    GroupProblem,
    PlanReads,
    Reads,
    at_rates_of,
    can_be_led,
    group_of,
    led_plan,
    reads,
    reason_of,
)
from samerack.pipeline.schema import COUNT, TEXT, shape, state_as_json

_SAME: Final = ("cluster", "group", "kind", "assignor", "role", "rack_aware_fetch", "racks", "broker_racks", "members")
_TASKS_PER_CORE: Final = 8
"""Groups differ in size: small tasks keep all cores busy to the end, and show progress."""
_MAX_SENT: Final = 500_000
"""Chapters that are sent to every worker: about 60 MB."""

_KEYS: Final = shape(
    day=DateType(), cluster=TEXT, group=TEXT, first=TimestampType(), last=TimestampType(), minutes=COUNT
)
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
"""One chapter: in how many minutes it was the latest state, and cross-rack shares of the bytes of known racks: `random`
for placement that ignores racks, `present`, `own` for the group's own assignor (led groups), `possible` for the best
plan that an agent could lead it with. `expected` is the present share of all bytes, with `random` for those of unknown
rack."""


class ShareFacts:
    """Computes the facts of one state after the other; remembers the last one, so that equal ones in a row are cheap.

    Complexity: memory of one group.
    """

    def __init__(self) -> None:
        self._last: _Structure | None = None

    def row_of(self, text: str) -> dict[str, Any]:
        """Return the facts of one state as JSON; only `error` where they cannot be computed."""
        try:
            state = GroupState.model_validate_json(text)
            if self._last is not None and _only_rates_differ(self._last.state, state):
                return self._last.facts_of(at_rates_of(self._last.group, state))
            self._last = None  # a state with an error leaves nothing behind
            group = group_of(state)
            self._last = _Structure(state, group)
            return self._last.facts_of(group)
        except Exception as error:  # noqa: BLE001 - an error in one group must not stop the others
            return {"error": reason_of(error)}


class _Structure:
    """A group's members, racks, replicas and owners, and what follows from them at any rates."""

    def __init__(self, state: GroupState, group: GroupProblem) -> None:
        """Compute nothing but the facts; each plan is computed when it is needed first."""
        self.state = state
        self.group = group
        self._now = reads(group.problem, group.problem.owner)
        self._best: Reads | None = None
        self._unavoidable = _unavoidable(group.problem)
        if self._unavoidable is not None and (group.problem.owner != NOBODY).all() and self._is_best(self._now):
            self._best = self._now
        self._random = 1 - 1 / state.broker_racks if state.broker_racks else 0.0
        sends = [member.tells_rack for member in state.members]
        self._facts = {
            "kind": state.kind,
            "assignor": state.assignor,
            "role": state.role,
            "members": len(state.members),
            "rackless": sum(member.rack == UNKNOWN for member in state.members),
            "sending": None if None in sends else sum(filter(None, sends)),
            "fetching": sum(member.fetches_with_rack for member in state.members),
            "random": self._random,
        }

    def facts_of(self, group: GroupProblem) -> dict[str, Any]:
        """Return the facts at the rates of this group."""
        now = self._now.at(group.rates)
        read = now.known + now.unknown
        own = self._own if self.state.role == LEADING else None
        return {
            **self._facts,
            "present": now.share if now.known else None,
            "expected": (now.crossing + now.unknown * self._random) / read if read else None,
            "own": None if own is None else _share(own.at(group.rates)),
            "possible": self._possible(group, now),
        }

    @cached_property
    def _own(self) -> Reads | None:
        plan = own_plan(self.group.problem, self.state.assignor, self.group.tells_rack)
        return None if plan is None else reads(self.group.problem, plan)

    def _possible(self, group: GroupProblem, now: PlanReads) -> float | None:
        if not now.known:
            return None
        if not now.crossing or not can_be_led(self.state):
            return now.share
        best = self._best
        if best is None:
            best = reads(group.problem, led_plan(group))
            if self._is_best(best):
                self._best = best
        return min(now.share, best.at(group.rates).share)

    def _is_best(self, plan: Reads) -> bool:
        """Return whether a plan reads across racks only what every plan does, so that no rates make another better."""
        return self._unavoidable is not None and np.array_equal(plan.crossing, self._unavoidable)


def _unavoidable(problem: Problem) -> BoolArray | None:
    """Return [P] whether every subscriber reads the partition across racks.

    None where a rack is unknown, or nobody reads a topic: plans then differ in what they read of known racks.
    """
    if not problem.members or (problem.member_rack == NOBODY).any() or (problem.leader_rack == NOBODY).any():
        return None
    if not np.logical_or.reduce(problem.subscriptions, axis=0)[problem.topic_of].all():
        return None
    alike = np.stack([problem.member_rack, problem.reads_any_replica, problem.subscription_of], axis=1)
    _, some = np.unique(alike, axis=0, return_index=True)
    across = np.ones(len(problem.topic_of), np.bool_)
    for member in some.tolist():
        subscribed = problem.subscriptions[problem.subscription_of[member]][problem.topic_of]
        across &= ~subscribed | cross_rack_mask(problem, np.full(len(across), member, np.int32))
    return across


def _only_rates_differ(one: GroupState, other: GroupState) -> bool:
    return (
        all(getattr(one, name) == getattr(other, name) for name in _SAME)
        and (one.planning, one.refusal) == (other.planning, other.refusal)
        and len(one.topics) == len(other.topics)
        and all(
            (mine.name, mine.replicas, mine.owner) == (its.name, its.replicas, its.owner)
            for mine, its in zip(one.topics, other.topics, strict=True)
        )
    )


def _share(read: PlanReads) -> float | None:
    return read.share if read.known else None


def _structure() -> Column:
    """Return a hash of a state without its rates, which change all the time."""
    topics = F.transform("topics", lambda topic: F.struct(topic["name"], topic["replicas"], topic["owner"]))
    same = ("kind", "assignor", "role", "rack_aware_fetch", "racks", "broker_racks", "members")
    return F.xxhash64(*(F.col(name) for name in same), topics)


def of_each_minute(states: DataFrame) -> DataFrame:
    """Return one state of each group and minute: the last of one agent, preferably the leading one.

    How many states there are says little: each change of a group is published at once.

    Returns:
        day, cluster, group, id, at, structure.
    """
    leads = F.col("role") == LEADING
    state = F.struct(leads.alias("leads"), "agent", "at", "id", _structure().alias("structure"))
    minute = F.date_trunc("minute", F.col("at")).alias("minute")
    # before they are sorted by minute: a state is large
    light = states.select(*GROUP_DAY, minute, state.alias("state"))
    last = light.groupBy(*GROUP_DAY, "minute").agg(F.max("state").alias("last"))
    return last.select(*GROUP_DAY, "last.id", "last.at", "last.structure")


def picked(states: DataFrame, keep: Callable[[DataFrame], DataFrame] = lambda frame: frame) -> DataFrame:
    """Return the last state of each chapter, as JSON, dealt out by group; a state that comes back is a new chapter.

    Returns:
        day, cluster, group, first, last, minutes, value.

    Args:
        states: rows of `group_states`.
        keep: keeps a frame that is read twice, until the caller is done.
    """
    in_time = Window.partitionBy(*GROUP_DAY).orderBy("at")
    changed = F.coalesce(F.col("structure") != F.lag("structure").over(in_time), F.lit(True))  # noqa: FBT003 - Spark's
    numbered = of_each_minute(states).withColumn("changed", changed.cast("int"))
    chapters = keep(
        numbered.withColumn("chapter", F.sum("changed").over(in_time))
        .groupBy(*GROUP_DAY, "chapter", "structure")
        .agg(
            F.min("at").alias("first"),
            F.max("at").alias("last"),
            F.count(F.lit(1)).alias("minutes"),
            F.max(F.struct("at", "id"))["id"].alias("id"),
        )
    )
    # states are large and chapters small: where these fit into every worker, the others need not be sent around
    few = chapters.count() <= _MAX_SENT
    found = states.withColumn("structure", _structure()).join(
        F.broadcast(chapters) if few else chapters, [*GROUP_DAY, "id", "structure"]
    )
    values = found.select(*GROUP_DAY, "first", "last", "minutes", state_as_json().alias("value"))
    tasks = states.sparkSession.sparkContext.defaultParallelism * _TASKS_PER_CORE
    # a publisher may give one id to many states: each chapter must still be one row
    return values.repartition(tasks, *GROUP).dropDuplicates([*GROUP_DAY, "first"])


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
