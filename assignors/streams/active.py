"""Places active tasks at least cost, on arrays: KIP-925's algorithms I and II (4.B) by `assignors.flow`.

Objective, exact: each client keeps its number of tasks, and with `balance` no client gets more than its share of a
subtopology; then

1. cost: traffic cost * partitions read across racks + non-overlap cost * tasks that are not where they were,
2. moves: tasks that are not where they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.arrays import SCATTER, ranges
from samerack.assignors.flow import Seats, Units, one_claim_each, place, place_with_prices, seats_by_kind
from samerack.assignors.problem import AssignmentError

if TYPE_CHECKING:
    from samerack.assignors.problem import Int32Array, Int64Array

MAX_PAIRS: Final = 400_000
"""Pairs up to which all are used from the start."""
A_FEW: Final = 16
"""Pairs of each client, and of each subtopology in each rack, that are used first, and that are added at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The pairs of G subtopologies and C clients over R racks; pair (g, c) has the number g * C + c.

    Each pair has a limit of its own (KIP-925, 4.B.II), so each is a seat. With a thousand subtopologies and ten
    thousand clients hardly any of these seats is used: a plan needs those where tasks are and a few more, and node
    prices show which others could improve it.

    Attributes:
        subtopologies: G.
        rack: [C] rack of the client.
        active: [A] clients that have tasks; others get none.
    """

    subtopologies: int
    rack: Int32Array
    active: Int64Array

    @property
    def pairs(self) -> int:
        """Returns the number of pairs that may have tasks."""
        return self.subtopologies * len(self.active)

    def all_pairs(self) -> Int64Array:
        """Return the numbers of all pairs that may have tasks, ascending."""
        return (np.arange(self.subtopologies)[:, np.newaxis] * len(self.rack) + self.active).ravel()

    def first_pairs(self, used: Int64Array) -> Int64Array:
        """Return the pairs in use, and a few of each client and of each subtopology in each rack, ascending."""
        each = np.arange(A_FEW)
        first = (self.active * SCATTER)[:, np.newaxis] + each * (self.subtopologies // A_FEW + 1)
        of_clients = first % self.subtopologies * len(self.rack) + self.active[:, np.newaxis]
        parts = [used, of_clients.ravel()]
        subtopology = np.arange(self.subtopologies)[:, np.newaxis]
        for rack in np.unique(self.rack[self.active]).tolist():
            inside = self.active[self.rack[self.active] == rack]
            turn = (subtopology * SCATTER + each * (len(inside) // A_FEW + 1)) % len(inside)
            parts.append((subtopology * len(self.rack) + inside[turn]).ravel())
        return np.unique(np.concatenate(parts))

    def better_pairs(self, pairs: Int64Array, hub_price: Int64Array, client_price: Int64Array) -> Int64Array:
        """Return pairs that could improve a plan, a few for each client; none if the plan is optimal.

        Args:
            pairs: the pairs of the plan, ascending.
            hub_price: [G, R] node price of a subtopology's tasks that move in the rack.
            client_price: [C] node price of the client; a pair improves the plan if this is higher.
        """
        subtopology, client = np.divmod(pairs, len(self.rack))
        good = hub_price[subtopology, self.rack[client]] < client_price[client]
        have = np.bincount(client[good], minlength=len(self.rack))
        found = [np.empty(0, np.int64)]
        for rack in np.unique(self.rack[self.active]).tolist():
            order = np.argsort(hub_price[:, rack], kind="stable")
            inside = self.active[self.rack[self.active] == rack]
            cheaper = np.searchsorted(hub_price[order, rack], client_price[inside])
            lacking = np.flatnonzero(cheaper > have[inside])
            # among one more than it has there is one that it lacks
            count = np.minimum(cheaper, have[inside] + A_FEW)[lacking]
            at = ranges(np.zeros(len(lacking), np.int64), count)
            found.append(order[at] * len(self.rack) + np.repeat(inside[lacking], count))
        return np.setdiff1d(np.concatenate(found), pairs)


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
    grid = Grid(subtopologies=len(size), rack=tasks.rack, active=np.flatnonzero(own))
    used = tasks.subtopology * np.int64(len(own)) + tasks.client

    def seated(pairs: Int64Array) -> tuple[Units, Seats]:
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
        return _units(tasks, tasks.subtopology, claim, len(pairs), costs), seats

    pairs = grid.all_pairs() if grid.pairs <= MAX_PAIRS else grid.first_pairs(used)
    while len(pairs) < grid.pairs:
        units, seats = seated(pairs)
        try:
            seat, group_price, client_price = place_with_prices(units, seats)
        except AssignmentError:
            pairs = grid.all_pairs()
            break
        hub_price = np.full((len(size), int(tasks.rack.max()) + 1), np.iinfo(np.int64).min)
        hub_price[seats.edge_kind, seats.column] = group_price
        better = grid.better_pairs(pairs, hub_price, client_price)
        if not len(better):
            return (pairs[seat] % len(own)).astype(np.int32)
        pairs = np.union1d(pairs, better)
    units, seats = seated(pairs)
    return (pairs[place(units, seats, sampled=True)] % len(own)).astype(np.int32)


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
