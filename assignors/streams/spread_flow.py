"""Spreads several standbys per task over the values of one tag: the rule of `assignors.streams.tags` as an exact flow.

A task that must be on a number of different values sends as many standbys as it still lacks through a node that leads
to each new value once, and the others to any value:

    task ──┬── apart ── at most one each ── value of the task, new ──┬── at most one each ── client
           └── free ─────────────────────── any value of the task ───┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.solvers import Network, solve

if TYPE_CHECKING:
    from samerack.assignors.model import Int32Array, Int64Array
    from samerack.assignors.streams.active import Costs
    from samerack.assignors.streams.standby_model import Standbys

MAX_ARCS: Final = 4_000_000
"""Tasks * clients up to which the network is built: some seconds."""


@dataclass(frozen=True, slots=True)
class _Arcs:
    tail: Int64Array
    head: Int64Array
    capacity: Int64Array
    price: Int64Array
    moves: Int64Array


def place_spread(standbys: Standbys, value: Int64Array, least: Int64Array, costs: Costs) -> Int32Array:
    """Compute the client of every standby, [U], at least cost, with every task on its required number of values.

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
    spread = _free(apart_node + task, value_node + task * values + to, np.ones(len(task), np.int64))
    task, to = np.nonzero(np.broadcast_to((count > apart)[:, np.newaxis], old.shape))
    rest = _free(free_node + task, value_node + task * values + to, (count - apart)[task])
    seated = _seated(standbys, (value_node, values), column, costs)
    layers = (spread, rest, seated)
    network = Network(
        supply=np.concatenate([-standbys.seats, apart, count - apart, np.zeros(tasks * values, np.int64)]),
        tail=np.concatenate([arcs.tail for arcs in layers]).astype(np.int32),
        head=np.concatenate([arcs.head for arcs in layers]).astype(np.int32),
        capacity=np.concatenate([arcs.capacity for arcs in layers]),
        costs=np.stack([np.concatenate([getattr(arcs, cost) for arcs in layers]) for cost in ("price", "moves")]),
    )
    used = solve(network)[len(spread.tail) + len(rest.tail) :] > 0
    return _hand_out(standbys, ((seated.tail - value_node) // values * clients + seated.head)[used])


def _free(tail: Int64Array, head: Int64Array, capacity: Int64Array) -> _Arcs:
    nothing = np.zeros(len(tail), np.int64)
    return _Arcs(tail, head, capacity, nothing, nothing)


def _seated(standbys: Standbys, nodes: tuple[int, int], column: Int64Array, costs: Costs) -> _Arcs:
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
    remote = standbys.remotes[standbys.remote[task], standbys.rack[standbys.group[client]]]
    price = remote * costs.traffic + moves * costs.non_overlap
    return _Arcs(value_node + task * values + column[client], client, np.ones(len(task), np.int64), price, moves)


def _hand_out(standbys: Standbys, got: Int64Array) -> Int32Array:
    """Keep standbys whose client still gets the task; the others of a task take its other clients in order."""
    clients = len(standbys.group)
    had = standbys.task.astype(np.int64) * clients + standbys.client
    placed = standbys.client.copy()
    placed[~np.isin(had, got)] = np.sort(got[~np.isin(got, had)]) % clients
    return placed
