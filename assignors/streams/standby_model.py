"""Standby tasks and where they may go, as arrays, the arcs of the flows that place them, and what flows there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from samerack.assignors.solvers import Network, solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from samerack.assignors.arrays import IntArray
    from samerack.assignors.problem import BoolArray, Int32Array, Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Standbys:
    """U standbys of T tasks on C clients in G groups over R racks. Clients of a group have one rack and equal tags.

    Attributes:
        task: [U] task of the standby, ascending.
        client: [U] its current client, where it costs no move.
        seats: [C] number of standbys that the client takes.
        remote: [T] row of `remotes`.
        remotes: [K, R] changelog partitions that a client in the rack would read across racks.
        group: [C] group of the client.
        rack: [G] rack of the group.
        kind: [T] row of `allowed`.
        allowed: [L, G] true where a standby may move to.
        stays: [U] true if it may stay.
        fixed_task: [F] a task that a client has in a form that does not move (active, for example).
        fixed_client: [F] the client; no standby of the task may move there.
    """

    task: Int32Array
    client: Int32Array
    seats: Int64Array
    remote: Int32Array
    remotes: Int64Array
    group: Int32Array
    rack: Int32Array
    kind: Int32Array
    allowed: BoolArray
    stays: BoolArray
    fixed_task: Int32Array
    fixed_client: Int32Array

    def pairs(self, task: IntArray, client: IntArray) -> Int64Array:
        """Return a number for each pair of task and client, ascending by task and then by client."""
        return task.astype(np.int64) * len(self.group) + client

    def traffic(self, task: IntArray, group: IntArray) -> Int64Array:
        """Return the changelog partitions that each task reads across racks in a group of clients."""
        return self.remotes[self.remote[task], self.rack[group]]


def keep_or_take(standbys: Standbys, client: Int32Array, got: Int64Array) -> Int32Array:
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


@dataclass(frozen=True, slots=True)
class FlowArcs:
    """One layer of arcs of a flow: [A] nodes, capacity, price, and moves."""

    tail: Int64Array
    head: Int64Array
    capacity: Int64Array
    price: Int64Array
    moves: Int64Array

    def shifted(self, tail: int, head: int) -> FlowArcs:
        """Return the arcs between nodes whose numbers are so much higher."""
        return replace(self, tail=self.tail + tail, head=self.head + head)


def free_arcs(tail: Int64Array, head: Int64Array, capacity: Int64Array) -> FlowArcs:
    """Return arcs that cost nothing."""
    nothing = np.zeros(len(tail), np.int64)
    return FlowArcs(tail, head, capacity, nothing, nothing)


def solve_layers(supply: Int64Array, layers: Sequence[FlowArcs]) -> list[Int64Array]:
    """Return the units on the arcs of each layer in the flow of least price, and of fewest moves among these."""

    def joined(name: str) -> Int64Array:
        return np.concatenate([getattr(arcs, name) for arcs in layers])

    network = Network(
        supply=supply,
        tail=joined("tail").astype(np.int32),
        head=joined("head").astype(np.int32),
        capacity=joined("capacity"),
        costs=np.stack([joined("price"), joined("moves")]),
    )
    return np.split(solve(network), np.cumsum([len(arcs.tail) for arcs in layers])[:-1])


class PoolUnits(NamedTuple):
    """How many standbys of each pool are on each client: [A] pools, clients, and numbers."""

    pool: Int64Array
    client: Int64Array
    units: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyFlow:
    """The flow on the arcs to clients, without empty arcs.

    Attributes:
        pool: [U] pool of each standby, -1 for those of tasks with a node of their own.
        stay: those of the pools that stay.
        go: those that move.
        own: `Standbys.pairs` of the tasks with a node of their own, and the clients that get them.
    """

    pool: Int32Array
    stay: PoolUnits
    go: PoolUnits
    own: Int64Array
