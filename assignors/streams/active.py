"""Places active tasks at least cost, on arrays: KIP-925's algorithms I and II (4.B) by `assignors.flow`.

Objective, exact: each client keeps its number of tasks, and with `balance` no client gets more than its share of a
subtopology; then

1. cost: traffic cost * partitions read across racks + non-overlap cost * tasks that are not where they were,
2. moves: tasks that are not where they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from samerack.assignors.flow import Units, one_claim_each, place, seats_by_kind

if TYPE_CHECKING:
    from samerack.assignors.problem import Int32Array, Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """KIP-925's costs (4.B.III), not negative: of a partition read across racks, and of a task that is moved."""

    traffic: int
    non_overlap: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveTasks:
    """T active tasks on C clients over R racks.

    Attributes:
        subtopology: [T] 0..G-1.
        remote: [T] row of `remotes`.
        remotes: [K, R] partitions that such a task would read across racks from a client in the rack.
        rack: [C] rack of the client.
        client: [T] client that has the task.
    """

    subtopology: Int32Array
    remote: Int32Array
    remotes: Int64Array
    rack: Int32Array
    client: Int32Array


def limits(own: Int64Array, size: Int64Array, tasks: int, *, as_java: bool = False) -> Int64Array:
    """Return the most tasks of a subtopology per client: ceil(tasks of it * client's tasks / all tasks).

    A plan within these limits always exists: splitting every subtopology in proportion to the clients' counts gives a
    fractional flow within them, and a flow problem with integer capacities that has a fractional solution has an
    integer one. (KIP-925, 4.B.II, asks how to prove it.)

    Args:
        own: number of tasks of each client.
        size: number of tasks of each subtopology, of a shape that fits that of `own`.
        tasks: number of all tasks.
        as_java: divide first and in floating point, as Kafka does, which allows one task more if that rounds up.
    """
    if as_java:
        return np.ceil(own / tasks * size).astype(np.int64)
    return -(-(own * size) // tasks)


def optimize_active(tasks: ActiveTasks, costs: Costs, *, balance: bool, as_java: bool = False) -> Int32Array:
    """Compute the client of every task, [T], at least cost (objective above).

    Args:
        tasks: the tasks and their current clients.
        costs: the costs that apply.
        balance: KIP-925's algorithm II (`balance_subtopology`), else I (`min_traffic`).
        as_java: see `limits`.

    Complexity: O(T) in numpy, and a flow with arcs in the number of classes (distinct rows * current clients), not of
    tasks times clients.
    """
    if not len(tasks.client):
        return tasks.client
    if balance:
        return _balanced(tasks, costs, as_java=as_java)
    clients = len(tasks.rack)
    units = _units(tasks, np.zeros(len(tasks.client), np.int32), tasks.client + np.int32(1), clients, costs)
    seats = seats_by_kind(
        np.zeros(clients, np.int32),
        tasks.rack,
        demand=np.bincount(tasks.client, minlength=clients),
        tail=np.empty(0, np.int32),
        head=np.empty(0, np.int32),
        capacity=np.empty(0, np.int64),
    )
    return place(units, seats)


def _balanced(tasks: ActiveTasks, costs: Costs, *, as_java: bool) -> Int32Array:
    """Solve algorithm II: one seat per subtopology and client with a positive limit, and clients behind the seats."""
    own = np.bincount(tasks.client, minlength=len(tasks.rack))
    size = np.bincount(tasks.subtopology)
    used = tasks.subtopology * np.int64(len(own)) + tasks.client
    pairs = (np.arange(len(size))[:, np.newaxis] * len(own) + np.flatnonzero(own)).ravel()
    subtopology, client = np.divmod(pairs, len(own))
    claim = (np.searchsorted(pairs, used) + 1).astype(np.int32)
    seats = seats_by_kind(
        subtopology,
        tasks.rack[client],
        demand=np.concatenate([np.zeros(len(pairs), np.int64), own]),
        tail=np.arange(len(pairs), dtype=np.int32),
        head=(len(pairs) + client).astype(np.int32),
        capacity=limits(own[client], size[subtopology], len(used), as_java=as_java),
    )
    seat = place(_units(tasks, tasks.subtopology, claim, len(pairs), costs), seats)
    return (pairs[seat] % len(own)).astype(np.int32)


def _units(tasks: ActiveTasks, kind: Int32Array, claim: Int32Array, seats: int, costs: Costs) -> Units:
    return Units(
        kind=kind,
        kinds=int(kind.max()) + 1,
        price=tasks.remote,
        prices=tasks.remotes * costs.traffic,
        claim=claim,
        claims=one_claim_each(seats),
        move_price=costs.non_overlap,
    )
