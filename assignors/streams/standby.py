"""Places standby tasks at least cost, on arrays: exactly, while KIP-925 (4.C) swaps pairs.

Objective, exact: each client keeps its number of standbys, no task is twice on one client, every standby goes only to
an allowed group of clients (tags, KIP-708); then

1. cost: traffic cost * changelog partitions read across racks + non-overlap cost * standbys not where they were,
2. moves.

Standbys with the same changelog racks and the same allowed groups share a pool of one flow, which ignores where the
actives are. Most solutions of that flow can be assigned to tasks so that no client has a task twice; tasks for which
that fails get a node of their own with the clients they may have, and the flow is solved again. The cost of each flow
is a lower bound, so the first that can be assigned is optimal.

pool ──┬───────────────── client that has such a standby, no move ─────────────┐
       └── hub (kind, rack), price, a move ── group ─────────────────────── client
task of its own ── every client that it may have, at most one each ──────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from samerack.assignors.arrays import IntArray, combine, first_of_each
from samerack.assignors.problem import BoolArray, Int32Array, Int64Array
from samerack.assignors.solvers import Layer, solve_layers

if TYPE_CHECKING:
    from samerack.assignors.streams.active import Costs


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


class _PoolUnits(NamedTuple):
    """How many standbys of each pool are on each client: [A] pools, clients, and numbers."""

    pool: IntArray
    client: IntArray
    units: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class _StandbyFlow:
    """The flow on the arcs to clients, without empty arcs.

    Attributes:
        pool: [U] pool of each standby, -1 for those of tasks with a node of their own.
        stay: those of the pools that stay.
        go: those that move.
        own: `Standbys.pairs` of the tasks with a node of their own, and the clients that get them.
    """

    pool: Int32Array
    stay: _PoolUnits
    go: _PoolUnits
    own: Int64Array


# Assigns the units of the flow to the standbys of a pool, so that no client has a task twice.
#
# A pool's standbys cost the same wherever they move, so standbys that conflict with their own task exchange targets
# within the pool, or with one that was to stay. Conflicts that remain are reported, not forced.


def _deal(standbys: Standbys, alone: BoolArray, answer: _StandbyFlow) -> tuple[Int32Array, Int64Array]:
    """Return a client for every standby, [U], and the standbys whose client would then have their task twice.

    Args:
        standbys: the standbys to place.
        alone: [T] tasks that had a node of their own.
        answer: the flow.
    """
    placed = np.full(len(standbys.task), -1, np.int64)
    _deal_own(standbys, alone, answer, placed)
    moving = _stay(standbys, answer, placed)
    _go(answer, moving, placed)
    wrong = _Meetings(standbys, placed).settle(moving, answer.pool)
    return placed.astype(np.int32), np.array(wrong, np.int64)


def _deal_own(standbys: Standbys, alone: BoolArray, answer: _StandbyFlow, placed: Int64Array) -> None:
    """Place tasks with a node of their own: standbys stay if they may, the others take the rest in ascending order."""
    got = answer.own
    mine = np.flatnonzero(alone[standbys.task])
    had = standbys.pairs(standbys.task[mine], standbys.client[mine])
    stays = np.isin(had, got) & standbys.stays[mine]
    placed[mine[stays]] = standbys.client[mine[stays]]
    left = got[~np.isin(got, had[stays])]
    placed[mine[~stays]] = np.sort(left) % len(standbys.group)  # standbys are sorted by task, and so are these


def _stay(standbys: Standbys, answer: _StandbyFlow, placed: Int64Array) -> Int64Array:
    """Keep the first standbys of each pool where the flow keeps some; return those that move, by pool."""
    shared = np.flatnonzero((answer.pool >= 0) & standbys.stays)
    pair = standbys.pairs(answer.pool[shared], standbys.client[shared])
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    limit_of = standbys.pairs(answer.stay.pool, answer.stay.client)
    by_pair = np.argsort(limit_of)
    at = np.searchsorted(limit_of[by_pair], pair)
    known = at < len(limit_of)
    known[known] = limit_of[by_pair][at[known]] == pair[known]
    limit = np.zeros(len(pair), np.int64)
    limit[known] = answer.stay.units[by_pair][at[known]]
    rank = np.arange(len(pair)) - np.searchsorted(pair, pair)
    stays = rank < limit
    staying = shared[order[stays]]
    placed[staying] = standbys.client[staying]
    moving = np.flatnonzero((answer.pool >= 0) & (placed < 0))
    return moving[np.argsort(answer.pool[moving], kind="stable")]


def _go(answer: _StandbyFlow, moving: Int64Array, placed: Int64Array) -> None:
    """Give the movers of a pool, in ascending order, its targets in ascending order."""
    order = np.lexsort((answer.go.client, answer.go.pool))
    placed[moving] = np.repeat(answer.go.client[order], answer.go.units[order])


class _Meetings:
    """The placement, and the exchanges that prevent a task from being twice on a client.

    No exchange changes the cost: equal standbys exchange targets, any two movers exchange targets within a group of
    clients, or a mover and a stayer, equal and from the same client, exchange roles.
    """

    def __init__(self, standbys: Standbys, placed: Int64Array) -> None:
        self._base = standbys.task.astype(np.int64) * len(standbys.group)
        self._client = standbys.client
        self._stays = standbys.stays
        self._group = standbys.group
        self._placed = placed
        self._fixed = standbys.pairs(standbys.fixed_task, standbys.fixed_client)
        self._wrong = np.isin(self._base + placed, self._fixed) | self._doubles()

    def _doubles(self) -> BoolArray:
        """Return the standbys that move to a client with a standby of their task; of several movers all but one."""
        at = self._base + self._placed
        comes = (self._placed != self._client).astype(np.int64)
        order = np.lexsort((comes, at))
        again = np.zeros(len(at), np.bool_)
        again[order[1:]] = at[order[1:]] == at[order[:-1]]
        return again

    def settle(self, moving: Int64Array, pool: Int32Array) -> list[int]:
        """Make all exchanges that are possible; return the standbys still in conflict.

        Args:
            moving: standbys of pools that move, by pool.
            pool: [U] pool of each standby.
        """
        wrong = np.flatnonzero(self._wrong)
        if not len(wrong):
            return []
        taken = set((self._base + self._placed).tolist())
        taken.update(self._fixed.tolist())
        pools = pool[moving]
        left = []
        for one in wrong.tolist():
            if not self._wrong[one]:
                continue
            begin, end = np.searchsorted(pools, [pool[one], pool[one] + 1]).tolist() if pool[one] >= 0 else (0, 0)
            same_group = moving[self._group[self._placed[moving]] == self._group[self._placed[one]]]
            if not (
                self._exchange(one, moving[begin:end], taken)
                or self._exchange(one, same_group, taken)
                or self._change_parts(
                    one, np.flatnonzero((pool == pool[one]) & (self._client == self._client[one])), taken
                )
            ):
                left.append(one)
        return left

    def _exchange(self, one: int, others: Int64Array, taken: set[int]) -> bool:
        """Exchange the targets of `one` and another mover; return whether that was possible."""
        mine, here = int(self._base[one]), int(self._placed[one])
        for other in others:  # no vectorized search: the first is nearly always right
            theirs, there = int(self._base[other]), int(self._placed[other])
            if there != here and mine + there not in taken and theirs + here not in taken:
                self._put(int(other), here, taken)
                self._put(one, there, taken)
                return True
        return False

    def _change_parts(self, one: int, siblings: Int64Array, taken: set[int]) -> bool:
        """Let `one` stay and a stayer of the same client take its target; return whether that was possible."""
        home, here = int(self._client[one]), int(self._placed[one])
        if not self._stays[one] or int(self._base[one]) + home in taken:
            return False
        for other in siblings:
            if self._placed[other] == home and int(self._base[other]) + here not in taken:
                self._put(int(other), here, taken)
                self._put(one, home, taken)
                return True
        return False

    def _put(self, one: int, client: int, taken: set[int]) -> None:
        """Move a standby; if it was in conflict, its old place stays taken by the other one."""
        if not self._wrong[one]:
            taken.discard(int(self._base[one]) + int(self._placed[one]))
        self._placed[one] = client
        taken.add(int(self._base[one]) + client)
        self._wrong[one] = False


PATIENCE: Final = 6
"""Flows after which every task gets a node of its own: slower, but this flow is the last."""


def cost_of(standbys: Standbys, costs: Costs, placed: Int32Array) -> int:
    """Return the cost of a placement; a standby on a client that had a standby of its task has not moved."""
    stays = np.isin(standbys.pairs(standbys.task, placed), standbys.pairs(standbys.task, standbys.client))
    traffic = int(standbys.traffic(standbys.task, standbys.group[placed]).sum())
    return traffic * costs.traffic + int((~stays).sum()) * costs.non_overlap


def optimize_standby(standbys: Standbys, costs: Costs) -> Int32Array:
    """Compute the client of every standby, [U], at least cost (objective above).

    Args:
        standbys: the standbys and their current clients.
        costs: the costs that apply.

    Complexity: a few flows with arcs in the number of pools * current clients, and of tasks with an own node * clients.
    """
    if not len(standbys.task):
        return standbys.client
    alone = np.zeros(len(standbys.remote), np.bool_)
    rounds = 0
    while True:
        placed, wrong = _deal(standbys, alone, _flow(standbys, costs, alone))
        if not len(wrong):
            return placed
        rounds += 1
        alone[standbys.task[wrong]] = True
        if rounds >= PATIENCE:
            alone[:] = True


def _flow(standbys: Standbys, costs: Costs, alone: BoolArray) -> _StandbyFlow:
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
    # nodes: clients, groups (one node for all pools), pools, tasks with a node of their own
    group_node, pool_node = clients, clients + groups
    task_node = pool_node + len(some_task)
    of_pool = np.bincount(pool[pool >= 0], minlength=len(some_task))
    stay, go, kept, seat = solve_layers(
        np.concatenate([-standbys.seats, np.zeros(groups, np.int64), of_pool, size[own_task]]),
        (
            replace(stays, tail=pool_node + stays.tail),
            replace(goes, tail=pool_node + goes.tail, head=group_node + goes.head),
            replace(own, tail=task_node + own.tail),
            Layer(group_node + standbys.group, np.arange(clients), standbys.seats),
        ),
    )
    used = stay > 0
    return _StandbyFlow(
        pool=pool,
        stay=_PoolUnits(stays.tail[used], stays.head[used], stay[used]),
        go=_through_groups(goes, go, standbys.group, seat),
        own=standbys.pairs(own_task[own.tail], own.head)[kept > 0],
    )


def _pools(standbys: Standbys, alone: BoolArray) -> tuple[Int32Array, Int64Array]:
    """Return the pool of each standby, and one task of each pool."""
    pool = np.full(len(standbys.task), -1, np.int32)
    shared = np.flatnonzero(~alone[standbys.task])
    task = standbys.task[shared]
    of, count = combine(standbys.remote[task], len(standbys.remotes), standbys.kind[task], len(standbys.allowed))
    pool[shared] = of
    return pool, task[first_of_each(of, count)].astype(np.int64) if count else np.empty(0, np.int64)


def _stays(standbys: Standbys, pool: Int32Array, some_task: Int64Array, costs: Costs) -> Layer:
    """Return the arcs from pools to clients that have such a standby."""
    shared = (pool >= 0) & standbys.stays
    pairs, units = np.unique(standbys.pairs(pool[shared], standbys.client[shared]), return_counts=True)
    holder, client = np.divmod(pairs, len(standbys.group))
    price = standbys.traffic(some_task[holder], standbys.group[client]) * costs.traffic
    return Layer(holder, client, units, (price, 0))


def _goes(standbys: Standbys, some_task: Int64Array, costs: Costs) -> Layer:
    """Return the arcs from pools to groups that may have such a standby."""
    holder, group = np.nonzero(standbys.allowed[standbys.kind[some_task]])
    price = standbys.traffic(some_task[holder], group) * costs.traffic + costs.non_overlap
    return Layer(holder, group, len(standbys.task), (price, 1))


def _own(standbys: Standbys, tasks: Int64Array, costs: Costs) -> Layer:
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
    return Layer(at, client, 1, (price, moved))


def _through_groups(goes: Layer, units: Int64Array, group_of: Int32Array, seat: Int64Array) -> _PoolUnits:
    """Return the units from pool to client, derived from those from pool to group and from group to client."""
    from_pool = np.argsort(goes.head, kind="stable")
    to_client = np.argsort(group_of, kind="stable")
    sender = np.repeat(goes.tail[from_pool], units[from_pool])
    receiver = np.repeat(to_client, seat[to_client])
    pairs, count = np.unique(sender * len(group_of) + receiver, return_counts=True)
    return _PoolUnits(pairs // len(group_of), pairs % len(group_of), count.astype(np.int64))
