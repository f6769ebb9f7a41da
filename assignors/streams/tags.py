"""Optimizes standbys by racks while keeping the spread of tags (KIP-708).

The rule is Kafka's: the clients of a task together have at least as many different tag (key, value) pairs as before.
With one standby per task the rule gives a set of allowed groups of clients, and the flow is exact. With more standbys
the rule couples the standbys of a task. Then the plan without tags is taken if it satisfies the rule (no other can be
better); with one key another flow is exact (`place_spread`); with several keys, or above the size limit of that flow,
each flow places one standby of each task exactly, a different one in each turn, until the cost no longer decreases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from samerack.assignors.solvers import Layer, solve_layers
from samerack.assignors.streams.standby import Standbys, cost_of, optimize_standby

if TYPE_CHECKING:
    from samerack.assignors.problem import BoolArray, Int32Array, Int64Array
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
            homes = _keep_or_take(given, placed, given.pairs(given.task, given.client))
            home = replace(tagged, standbys=replace(given, client=homes))
            placed[movable] = optimize_standby(_question(home, placed, movable, least), costs)
        before, cost = cost, cost_of(given, costs, placed)
        idle = 0 if cost < before else idle + 1
        turn += 1
    return placed


def _keep_or_take(standbys: Standbys, client: Int32Array, got: Int64Array) -> Int32Array:
    """Return [U] clients by pairs that may be had: standbys keep theirs where it is among them, others take the rest.

    Args:
        standbys: the standbys.
        client: [U] their clients.
        got: [U] `Standbys.pairs`, as many of each task as it has standbys.
    """
    had = standbys.pairs(standbys.task, client)
    placed = client.copy()
    # both sorted by task, equally many each
    placed[~np.isin(had, got)] = np.sort(got[~np.isin(got, had)]) % len(standbys.group)
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


MAX_ARCS: Final = 4_000_000
"""Tasks * clients up to which the network is built: some seconds."""


def place_spread(standbys: Standbys, value: Int64Array, least: Int64Array, costs: Costs) -> Int32Array:
    """Compute the client of every standby, [U], at least cost, with every task on its required number of values.

    A task that must be on a number of different values sends as many standbys as it still lacks through a node that
    leads to each new value once, and the others to any value:

    task ──┬── apart ── at most one each ── value of the task, new ──┬── at most one each ── client
           └── free ─────────────────────── any value of the task ───┘

    Args:
        standbys: the standbys to place; each may go to any client without its task.
        value: [C] value of the client's tag, 0..V-1, or -1 if it has none.
        least: [T] number of different values that the task must be on.
        costs: the costs that apply.

    Complexity: a flow with tasks * clients arcs.
    """
    clients, tasks, values = len(standbys.group), len(standbys.remote), int(value.max()) + 2
    column = np.where(value < 0, values - 1, value)  # the last column is that of no value
    old = np.zeros((tasks, values), np.bool_)
    old[standbys.fixed_task, column[standbys.fixed_client]] = True
    old[:, -1] = False
    count = np.bincount(standbys.task, minlength=tasks)
    apart = np.clip(least - old.sum(axis=1), 0, count)
    new = ~old
    new[:, -1] = False
    apart_node, free_node, value_node = clients, clients + tasks, clients + 2 * tasks
    task, to = np.nonzero(new & (apart > 0)[:, np.newaxis])
    spread = Layer(apart_node + task, value_node + task * values + to, 1)
    task, to = np.nonzero(np.broadcast_to((count > apart)[:, np.newaxis], old.shape))
    rest = Layer(free_node + task, value_node + task * values + to, (count - apart)[task])
    seated = _seated(standbys, (value_node, values), column, costs)
    supply = np.concatenate([-standbys.seats, apart, count - apart, np.zeros(tasks * values, np.int64)])
    *_, units = solve_layers(supply, (spread, rest, seated))
    got = standbys.pairs((seated.tail - value_node) // values, seated.head)[units > 0]
    return _keep_or_take(standbys, standbys.client, got)


def _seated(standbys: Standbys, nodes: tuple[int, int], column: Int64Array, costs: Costs) -> Layer:
    """Return the arcs from the values of each task to clients; `nodes` are the first value node and V + 1."""
    value_node, values = nodes
    clients, tasks = len(standbys.group), len(standbys.remote)
    here = np.zeros((tasks, clients), np.bool_)
    here[standbys.task, standbys.client] = True
    fits = np.zeros((tasks, clients), np.bool_)
    fits[np.unique(standbys.task)] = True
    fits[standbys.fixed_task, standbys.fixed_client] = False
    task, client = np.nonzero(fits)
    moves = (~here[task, client]).astype(np.int64)
    price = standbys.traffic(task, standbys.group[client]) * costs.traffic + moves * costs.non_overlap
    return Layer(value_node + task * values + column[client], client, 1, (price, moves))
