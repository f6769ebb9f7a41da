"""Spreads several standbys per task over the values of one tag: the rule of `assignors.streams.tags` as an exact flow.

A task that must be on a number of different values sends as many standbys as it still lacks through a node that leads
to each new value once, and the others to any value:

    task ──┬── apart ── at most one each ── value of the task, new ──┬── at most one each ── client
           └── free ─────────────────────── any value of the task ───┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.streams.standby_model import Arcs, Standbys, free_arcs, keep_or_take, solve_layers

if TYPE_CHECKING:
    from samerack.assignors.model import Int32Array, Int64Array
    from samerack.assignors.streams.active import Costs

MAX_ARCS: Final = 4_000_000
"""Tasks * clients up to which the network is built: some seconds."""


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
    spread = free_arcs(apart_node + task, value_node + task * values + to, np.ones(len(task), np.int64))
    task, to = np.nonzero(np.broadcast_to((count > apart)[:, np.newaxis], old.shape))
    rest = free_arcs(free_node + task, value_node + task * values + to, (count - apart)[task])
    seated = _seated(standbys, (value_node, values), column, costs)
    supply = np.concatenate([-standbys.seats, apart, count - apart, np.zeros(tasks * values, np.int64)])
    *_, units = solve_layers(supply, (spread, rest, seated))
    got = standbys.pairs((seated.tail - value_node) // values, seated.head)[units > 0]
    return keep_or_take(standbys, standbys.client, got)


def _seated(standbys: Standbys, nodes: tuple[int, int], column: Int64Array, costs: Costs) -> Arcs:
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
    return Arcs(value_node + task * values + column[client], client, np.ones(len(task), np.int64), price, moves)
