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
from samerack.assignors.solvers import Network, solve

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


@dataclass(frozen=True, slots=True)
class _Arcs:
    tail: Int64Array
    head: Int64Array
    capacity: Int64Array
    price: Int64Array
    moves: Int64Array


def flow(standbys: Standbys, costs: Costs, alone: BoolArray) -> Answer:
    """Compute an optimal flow.

    Args:
        standbys: the standbys to place.
        costs: the costs that apply.
        alone: [T] tasks that have a node of their own.
    """
    pool, some_task = _pools(standbys, alone)
    clients, groups = len(standbys.group), len(standbys.rack)
    demand = standbys.seats
    stays = _stays(standbys, pool, some_task, costs)
    goes, hub_pool, hub_group = _goes(standbys, some_task, costs)
    own_task = np.flatnonzero(alone & (np.bincount(standbys.task, minlength=len(alone)) > 0))
    own, own_at, own_client = _own(standbys, own_task, costs)
    # nodes: clients, groups (one node for all pools), pools, tasks with a node of their own
    group_node, pool_node = clients, clients + groups
    task_node = pool_node + len(some_task)
    to_client = np.arange(clients)
    seated = _Arcs(
        group_node + standbys.group.astype(np.int64),
        to_client,
        demand,
        np.zeros(clients, np.int64),
        np.zeros(clients, np.int64),
    )
    layers = (
        _Arcs(pool_node + stays.tail, stays.head, stays.capacity, stays.price, stays.moves),
        _Arcs(pool_node + goes.tail, group_node + goes.head, goes.capacity, goes.price, goes.moves),
        _Arcs(task_node + own.tail, own.head, own.capacity, own.price, own.moves),
        seated,
    )
    supply = np.zeros(task_node + len(own_task), np.int64)
    supply[:clients] = -demand
    supply[pool_node:task_node] = np.bincount(pool[pool >= 0], minlength=len(some_task))
    supply[task_node:] = np.bincount(standbys.task, minlength=len(alone))[own_task]
    network = Network(
        supply=supply,
        tail=np.concatenate([arcs.tail for arcs in layers]).astype(np.int32),
        head=np.concatenate([arcs.head for arcs in layers]).astype(np.int32),
        capacity=np.concatenate([arcs.capacity for arcs in layers]),
        costs=np.stack(
            [np.concatenate([arcs.price for arcs in layers]), np.concatenate([arcs.moves for arcs in layers])]
        ),
    )
    units = solve(network)
    stay, go, kept, seat = np.split(units, np.cumsum([len(arcs.tail) for arcs in layers])[:-1])
    go_pool, go_client, go_units = _through_groups(hub_pool, hub_group, go, standbys.group, seat)
    used = kept > 0
    return Answer(
        pool=pool,
        stay_pool=stays.tail[stay > 0],
        stay_client=stays.head[stay > 0],
        stay_units=stay[stay > 0],
        go_pool=go_pool,
        go_client=go_client,
        go_units=go_units,
        own_task=own_task[own_at[used]],
        own_client=own_client[used],
    )


def _pools(standbys: Standbys, alone: BoolArray) -> tuple[Int32Array, Int64Array]:
    """Return the pool of each standby, and one task of each pool."""
    pool = np.full(len(standbys.task), -1, np.int32)
    shared = np.flatnonzero(~alone[standbys.task])
    task = standbys.task[shared]
    of, count = combine(standbys.remote[task], len(standbys.remotes), standbys.kind[task], len(standbys.allowed))
    pool[shared] = of
    return pool, task[first_of_each(of, count)].astype(np.int64) if count else np.empty(0, np.int64)


def _stays(standbys: Standbys, pool: Int32Array, some_task: Int64Array, costs: Costs) -> _Arcs:
    shared = (pool >= 0) & standbys.stays
    pairs, units = np.unique(
        pool[shared].astype(np.int64) * len(standbys.group) + standbys.client[shared], return_counts=True
    )
    holder, client = pairs // len(standbys.group), pairs % len(standbys.group)
    remote = standbys.remotes[standbys.remote[some_task[holder]], standbys.rack[standbys.group[client]]]
    return _Arcs(holder, client, units.astype(np.int64), remote * costs.traffic, np.zeros(len(client), np.int64))


def _goes(standbys: Standbys, some_task: Int64Array, costs: Costs) -> tuple[_Arcs, Int64Array, Int64Array]:
    holder, group = np.nonzero(standbys.allowed[standbys.kind[some_task]])
    remote = standbys.remotes[standbys.remote[some_task[holder]], standbys.rack[group]]
    everything = np.full(len(holder), len(standbys.task))
    price = remote * costs.traffic + costs.non_overlap
    return _Arcs(holder, group, everything, price, np.ones(len(holder), np.int64)), holder, group


def _own(standbys: Standbys, tasks: Int64Array, costs: Costs) -> tuple[_Arcs, Int64Array, Int64Array]:
    """Return the arcs of tasks with a node of their own, with the index of the task and the client of each."""
    clients = len(standbys.group)
    row = np.full(len(standbys.remote), -1, np.int64)
    row[tasks] = np.arange(len(tasks))
    open_to = standbys.allowed[standbys.kind[tasks]][:, standbys.group]
    here = np.zeros((len(tasks), clients), np.bool_)
    mine = (row[standbys.task] >= 0) & standbys.stays
    here[row[standbys.task[mine]], standbys.client[mine]] = True
    open_to |= here
    barred = row[standbys.fixed_task] >= 0
    open_to[row[standbys.fixed_task[barred]], standbys.fixed_client[barred]] = False
    at, client = np.nonzero(open_to)
    moved = (~here[at, client]).astype(np.int64)
    remote = standbys.remotes[standbys.remote[tasks[at]], standbys.rack[standbys.group[client]]]
    price = remote * costs.traffic + moved * costs.non_overlap
    return _Arcs(at, client, np.ones(len(at), np.int64), price, moved), at, client


def _through_groups(
    pool: Int64Array, group: Int64Array, units: Int64Array, group_of: Int32Array, seat: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the units from pool to client, derived from those from pool to group and from group to client."""
    from_pool = np.argsort(group, kind="stable")
    to_client = np.argsort(group_of, kind="stable")
    sender = np.repeat(pool[from_pool], units[from_pool])
    receiver = np.repeat(to_client, seat[to_client])
    pairs, count = np.unique(sender * len(group_of) + receiver, return_counts=True)
    return pairs // len(group_of), pairs % len(group_of), count.astype(np.int64)
