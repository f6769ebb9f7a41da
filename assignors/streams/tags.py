"""Standbys that keep the spread of tags (KIP-708) while racks decide: which groups of clients a standby may move to.

The rule is Kafka's: a task is on clients that together have as many different (key, value) pairs of tags as before. For
one standby per task that is a set of allowed groups, and the flow is exact. With more the rule ties standbys of a task
to each other; then the answer without tags is taken if it happens to keep the rule (no other can be better), and
otherwise the first, second, … standbys of all tasks are placed in turn, each time exactly, until nothing gets better.
What must not enter: prices, names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assignors.streams.standby import Standbys, optimize_standby

if TYPE_CHECKING:
    from assignors.model import BoolArray, Int32Array, Int64Array
    from assignors.streams.active import Costs

TURNS: Final = 8
"""Turns of all standbys at most; two or three settle nearly everything."""

Tags = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Standbys that may go anywhere (`unrestrained`), and the tags of each group of clients."""

    standbys: Standbys
    tags: tuple[Tags, ...]


def unrestrained(**fields: Any) -> Standbys:
    """Standbys that may stay and may go to every group."""
    return Standbys(
        kind=np.zeros(len(fields["remote"]), np.int32),
        allowed=np.ones((1, len(fields["rack"])), np.bool_),
        stays=np.ones(len(fields["task"]), np.bool_),
        **fields,
    )


def optimize_tagged(tagged: Tagged, costs: Costs) -> Int32Array:
    """The client of every standby, [U]: as `optimize_standby`, and no task loses tags."""
    standbys = tagged.standbys
    if not any(tagged.tags):
        return optimize_standby(standbys, costs)
    several = len(standbys.task) > len(np.unique(standbys.task))
    least = _spread(tagged, standbys.client)
    if several:
        placed = optimize_standby(standbys, costs)
        if (_spread(tagged, placed) >= least).all():
            return placed
    return _in_turns(tagged, least, costs)


def _spread(tagged: Tagged, placed: Int32Array) -> Int64Array:
    """[T] different tag pairs over all clients that have the task."""
    standbys = tagged.standbys
    pairs: list[set[tuple[str, str]]] = [set() for _ in standbys.remote]
    for tasks, clients in ((standbys.fixed_task, standbys.fixed_client), (standbys.task, placed)):
        for task, group in zip(tasks.tolist(), standbys.group[clients].tolist(), strict=True):
            pairs[task] |= tagged.tags[group]
    return np.array([len(found) for found in pairs], np.int64)


def _in_turns(tagged: Tagged, least: Int64Array, costs: Costs) -> Int32Array:
    standbys = tagged.standbys
    turn = np.arange(len(standbys.task)) - np.searchsorted(standbys.task, standbys.task)
    placed = standbys.client.copy()
    before = None
    for _ in range(TURNS):
        for which in range(int(turn.max()) + 1):
            movable = turn == which
            question = _one_each(tagged, placed, movable, least)
            placed[movable] = optimize_standby(question, costs)
        if turn.max() == 0 or (before is not None and np.array_equal(before, placed)):
            break
        before = placed.copy()
    return placed


def _one_each(tagged: Tagged, placed: Int32Array, movable: BoolArray, least: Int64Array) -> Standbys:
    """The question of where the movable standbys go, at most one per task, while the others stay where they are."""
    standbys = tagged.standbys
    fixed_task = np.concatenate([standbys.fixed_task, standbys.task[~movable]])
    fixed_client = np.concatenate([standbys.fixed_client, placed[~movable]])
    around: list[Tags] = [frozenset()] * len(standbys.remote)
    for task, group in zip(fixed_task.tolist(), standbys.group[fixed_client].tolist(), strict=True):
        around[task] |= tagged.tags[group]
    kind, allowed = _kinds(around, least, tagged.tags)
    task, client = standbys.task[movable], standbys.client[movable]
    clients = len(standbys.group)
    occupied = np.isin(task.astype(np.int64) * clients + client, fixed_task.astype(np.int64) * clients + fixed_client)
    return replace(
        standbys,
        task=task,
        client=client,
        kind=kind,
        allowed=allowed,
        stays=allowed[kind[task], standbys.group[client]] & ~occupied,
        fixed_task=fixed_task,
        fixed_client=fixed_client,
    )


def _kinds(around: list[Tags], least: Int64Array, tags: tuple[Tags, ...]) -> tuple[Int32Array, BoolArray]:
    """Row of each task in a table of allowed groups: those that bring it to the least number of tag pairs."""
    rows: dict[tuple[Tags, int], int] = {}
    kind = np.array(
        [rows.setdefault((found, least), len(rows)) for found, least in zip(around, least.tolist(), strict=True)],
        np.int32,
    )
    allowed = [[len(found | group) >= wanted for group in tags] for found, wanted in rows]
    return kind, np.array(allowed, np.bool_)
