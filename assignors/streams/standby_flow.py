"""The minimum-cost flow of `assignors.streams.standby`: pools of equal standbys, and tasks with a node of their own.

pool ──┬───────────────── client that has such a standby, no move ─────────────┐
       └── hub (kind, rack), price, a move ── group ─────────────────────── client
task of its own ── every client that it may have, at most one each ──────────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from samerack.assignors.arrays import combine, first_of_each
from samerack.assignors.streams.standby_model import Arcs, free_arcs, solve_layers

if TYPE_CHECKING:
    from samerack.assignors.model import BoolArray, Int32Array, Int64Array
    from samerack.assignors.streams.active import Costs
    from samerack.assignors.streams.standby_model import Standbys


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The flow on the arcs to clients, without empty arcs.

    Attributes:
        pool: [U] pool of each standby, -1 for those of tasks with a node of their own.
        stay_pool: [A] a pool.
        stay_client: [A] a client.
        stay_units: [A] standbys of the pool that stay there.
        go_pool: [B] a pool.
        go_client: [B] a client.
        go_units: [B] standbys of the pool that move there.
        own_task: [D] a task with a node of its own.
        own_client: [D] a client that gets a standby of it.
    """

    pool: Int32Array
    stay_pool: Int64Array
    stay_client: Int64Array
    stay_units: Int64Array
    go_pool: Int64Array
    go_client: Int64Array
    go_units: Int64Array
    own_task: Int64Array
    own_client: Int64Array


def flow(standbys: Standbys, costs: Costs, alone: BoolArray) -> Answer:
    """Compute an optimal flow.

    Args:
        standbys: the standbys to place.
        costs: the costs that apply.
        alone: [T] tasks that have a node of their own.
    """
    pool, some_task = _pools(standbys, alone)
    clients, groups = len(standbys.group), len(standbys.rack)
    size = np.bincount(standbys.task, minlength=len(alone))
    own_task = np.flatnonzero(alone & (size > 0))
    stays = _stays(standbys, pool, some_task, costs)
    goes = _goes(standbys, some_task, costs)
    own = _own(standbys, own_task, costs)
    seated = free_arcs(standbys.group.astype(np.int64), np.arange(clients), standbys.seats)
    # nodes: clients, groups (one node for all pools), pools, tasks with a node of their own
    group_node, pool_node = clients, clients + groups
    task_node = pool_node + len(some_task)
    of_pool = np.bincount(pool[pool >= 0], minlength=len(some_task))
    stay, go, kept, seat = solve_layers(
        np.concatenate([-standbys.seats, np.zeros(groups, np.int64), of_pool, size[own_task]]),
        (
            stays.shifted(pool_node, 0),
            goes.shifted(pool_node, group_node),
            own.shifted(task_node, 0),
            seated.shifted(group_node, 0),
        ),
    )
    go_pool, go_client, go_units = _through_groups(goes, go, standbys.group, seat)
    used = kept > 0
    return Answer(
        pool=pool,
        stay_pool=stays.tail[stay > 0],
        stay_client=stays.head[stay > 0],
        stay_units=stay[stay > 0],
        go_pool=go_pool,
        go_client=go_client,
        go_units=go_units,
        own_task=own_task[own.tail[used]],
        own_client=own.head[used],
    )


def _pools(standbys: Standbys, alone: BoolArray) -> tuple[Int32Array, Int64Array]:
    """Return the pool of each standby, and one task of each pool."""
    pool = np.full(len(standbys.task), -1, np.int32)
    shared = np.flatnonzero(~alone[standbys.task])
    task = standbys.task[shared]
    of, count = combine(standbys.remote[task], len(standbys.remotes), standbys.kind[task], len(standbys.allowed))
    pool[shared] = of
    return pool, task[first_of_each(of, count)].astype(np.int64) if count else np.empty(0, np.int64)


def _stays(standbys: Standbys, pool: Int32Array, some_task: Int64Array, costs: Costs) -> Arcs:
    """Return the arcs from pools to clients that have such a standby."""
    shared = (pool >= 0) & standbys.stays
    pairs, units = np.unique(standbys.pairs(pool[shared], standbys.client[shared]), return_counts=True)
    holder, client = np.divmod(pairs, len(standbys.group))
    price = standbys.traffic(some_task[holder], standbys.group[client]) * costs.traffic
    return Arcs(holder, client, units.astype(np.int64), price, np.zeros(len(client), np.int64))


def _goes(standbys: Standbys, some_task: Int64Array, costs: Costs) -> Arcs:
    """Return the arcs from pools to groups that may have such a standby."""
    holder, group = np.nonzero(standbys.allowed[standbys.kind[some_task]])
    everything = np.full(len(holder), len(standbys.task))
    price = standbys.traffic(some_task[holder], group) * costs.traffic + costs.non_overlap
    return Arcs(holder, group, everything, price, np.ones(len(holder), np.int64))


def _own(standbys: Standbys, tasks: Int64Array, costs: Costs) -> Arcs:
    """Return the arcs from tasks with a node of their own, by index, to all clients that may have them."""
    row = np.full(len(standbys.remote), -1, np.int64)
    row[tasks] = np.arange(len(tasks))
    open_to = standbys.allowed[standbys.kind[tasks]][:, standbys.group]
    here = np.zeros(open_to.shape, np.bool_)
    mine = (row[standbys.task] >= 0) & standbys.stays
    here[row[standbys.task[mine]], standbys.client[mine]] = True
    open_to |= here
    barred = row[standbys.fixed_task] >= 0
    open_to[row[standbys.fixed_task[barred]], standbys.fixed_client[barred]] = False
    at, client = np.nonzero(open_to)
    moved = (~here[at, client]).astype(np.int64)
    price = standbys.traffic(tasks[at], standbys.group[client]) * costs.traffic + moved * costs.non_overlap
    return Arcs(at, client, np.ones(len(at), np.int64), price, moved)


def _through_groups(
    goes: Arcs, units: Int64Array, group_of: Int32Array, seat: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the units from pool to client, derived from those from pool to group and from group to client."""
    from_pool = np.argsort(goes.head, kind="stable")
    to_client = np.argsort(group_of, kind="stable")
    sender = np.repeat(goes.tail[from_pool], units[from_pool])
    receiver = np.repeat(to_client, seat[to_client])
    pairs, count = np.unique(sender * len(group_of) + receiver, return_counts=True)
    return pairs // len(group_of), pairs % len(group_of), count.astype(np.int64)
