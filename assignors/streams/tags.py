"""Optimizes standbys by racks while keeping the spread of tags (KIP-708).

The rule is Kafka's: the clients of a task together have at least as many different tag (key, value) pairs as before.
With one standby per task the rule gives a set of allowed groups of clients, and the flow is exact. With more standbys
the rule couples the standbys of a task. Then the plan without tags is taken if it satisfies the rule (no other can be
better); with one key another flow is exact (`spread_flow`); with several keys, or above the size limit of that flow,
each flow places one standby of each task exactly, a different one in each turn, until the cost no longer decreases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from samerack.assignors.streams.spread_flow import MAX_ARCS, place_spread
from samerack.assignors.streams.standby import cost_of, optimize_standby
from samerack.assignors.streams.standby_model import Standbys, keep_or_take

if TYPE_CHECKING:
    from samerack.assignors.model import BoolArray, Int32Array, Int64Array
    from samerack.assignors.streams.active import Costs

TURNS: Final = 30
"""Maximum number of turns."""

IDLE_TURNS: Final = 5
"""Number of turns in a row without improvement after which it stops."""

Tags = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Standbys that may go anywhere (`unrestrained`), and the tags of each group of clients."""

    standbys: Standbys
    tags: tuple[Tags, ...]


def unrestrained(**fields: Any) -> Standbys:
    """Return standbys that may stay and may go to every group."""
    return Standbys(
        kind=np.zeros(len(fields["remote"]), np.int32),
        allowed=np.ones((1, len(fields["rack"])), np.bool_),
        stays=np.ones(len(fields["task"]), np.bool_),
        seats=np.bincount(fields["client"], minlength=len(fields["group"])),
        **fields,
    )


def optimize_tagged(tagged: Tagged, costs: Costs) -> Int32Array:
    """Return the client of every standby, [U]: as `optimize_standby`, and no task loses tags."""
    standbys = tagged.standbys
    if not any(tagged.tags):
        return optimize_standby(standbys, costs)
    least = _spread(tagged, standbys.client)
    one_each = np.ones(len(standbys.task), np.bool_)
    if len(np.unique(standbys.task)) == len(standbys.task):
        return optimize_standby(_question(tagged, standbys.client, one_each, least), costs)
    free = optimize_standby(standbys, costs)
    if (_spread(tagged, free) >= least).all():
        return free
    if max(map(len, tagged.tags)) == 1 and len(standbys.remote) * len(standbys.group) <= MAX_ARCS:
        values = {tag: number for number, tag in enumerate(sorted(set().union(*tagged.tags)))}
        value = np.array([values[next(iter(tags))] if tags else -1 for tags in tagged.tags], np.int64)
        return place_spread(standbys, value[standbys.group], least, costs)
    return _in_turns(tagged, least, costs, cost_of(standbys, costs, free))


def _spread(tagged: Tagged, placed: Int32Array) -> Int64Array:
    """Return [T] the number of different tag pairs over all clients that have the task."""
    standbys = tagged.standbys
    pairs: list[set[tuple[str, str]]] = [set() for _ in standbys.remote]
    for tasks, clients in ((standbys.fixed_task, standbys.fixed_client), (standbys.task, placed)):
        for task, group in zip(tasks.tolist(), standbys.group[clients].tolist(), strict=True):
            pairs[task] |= tagged.tags[group]
    return np.array([len(found) for found in pairs], np.int64)


def _in_turns(tagged: Tagged, least: Int64Array, costs: Costs, bound: int) -> Int32Array:
    """Place standbys one per task at a time, in another order in each turn; stop when the cost is `bound`."""
    given = tagged.standbys
    placed = given.client.copy()
    cost, idle, turn = cost_of(given, costs, placed), 0, 0
    while cost > bound and idle < IDLE_TURNS and turn < TURNS:
        rank = _ranks(given.task, turn)
        for which in range(int(rank.max()) + 1):
            movable = rank == which
            # where a standby costs no move: where it is if its task was there, else where another one of its task was
            homes = keep_or_take(given, placed, given.pairs(given.task, given.client))
            home = replace(tagged, standbys=replace(given, client=homes))
            placed[movable] = optimize_standby(_question(home, placed, movable, least), costs)
        before, cost = cost, cost_of(given, costs, placed)
        idle = 0 if cost < before else idle + 1
        turn += 1
    return placed


def _ranks(task: Int32Array, turn: int) -> Int64Array:
    """Return [U] 0, 1, … for the standbys of each task, in a different order in each turn."""
    dice = np.random.default_rng(turn).random(len(task))
    order = np.lexsort((dice, task))
    rank = np.empty(len(task), np.int64)
    rank[order] = np.arange(len(task)) - np.searchsorted(task, task)
    return rank


def _question(tagged: Tagged, placed: Int32Array, movable: BoolArray, least: Int64Array) -> Standbys:
    """Return the problem of placing the movable standbys, at most one per task, while the others stay."""
    standbys = tagged.standbys
    fixed_task = np.concatenate([standbys.fixed_task, standbys.task[~movable]])
    fixed_client = np.concatenate([standbys.fixed_client, placed[~movable]])
    around: list[Tags] = [frozenset()] * len(standbys.remote)
    for task, group in zip(fixed_task.tolist(), standbys.group[fixed_client].tolist(), strict=True):
        around[task] |= tagged.tags[group]
    kind, allowed = _kinds(around, least, tagged.tags)
    task, client = standbys.task[movable], standbys.client[movable]
    occupied = np.isin(standbys.pairs(task, client), standbys.pairs(fixed_task, fixed_client))
    return replace(
        standbys,
        task=task,
        client=client,
        seats=np.bincount(placed[movable], minlength=len(standbys.group)),
        kind=kind,
        allowed=allowed,
        stays=allowed[kind[task], standbys.group[client]] & ~occupied,
        fixed_task=fixed_task,
        fixed_client=fixed_client,
    )


def _kinds(around: list[Tags], least: Int64Array, tags: tuple[Tags, ...]) -> tuple[Int32Array, BoolArray]:
    """Return each task's row in a table of allowed groups: those that give it at least its number of tag pairs."""
    rows: dict[tuple[Tags, int], int] = {}
    kind = np.array(
        [rows.setdefault((found, least), len(rows)) for found, least in zip(around, least.tolist(), strict=True)],
        np.int32,
    )
    allowed = [[len(found | group) >= wanted for group in tags] for found, wanted in rows]
    return kind, np.array(allowed, np.bool_)
