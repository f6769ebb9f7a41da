"""Assigns the units of the flow to the standbys of a pool, so that no client has a task twice.

A pool's standbys cost the same wherever they move, so standbys that conflict with their own task exchange targets
within the pool, or with one that was to stay. Conflicts that remain are reported, not forced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from samerack.assignors.problem import BoolArray, Int32Array, Int64Array
    from samerack.assignors.streams.standby_model import StandbyFlow, Standbys


def deal(standbys: Standbys, alone: BoolArray, answer: StandbyFlow) -> tuple[Int32Array, Int64Array]:
    """Return a client for every standby, [U], and the standbys whose client would then have their task twice.

    Args:
        standbys: the standbys to place.
        alone: [T] tasks that had a node of their own.
        answer: the flow.
    """
    placed = np.full(len(standbys.task), -1, np.int64)
    _own(standbys, alone, answer, placed)
    moving = _stay(standbys, answer, placed)
    _go(answer, moving, placed)
    wrong = _Meetings(standbys, placed).settle(moving, answer.pool)
    return placed.astype(np.int32), np.array(wrong, np.int64)


def _own(standbys: Standbys, alone: BoolArray, answer: StandbyFlow, placed: Int64Array) -> None:
    """Place tasks with a node of their own: standbys stay if they may, the others take the rest in ascending order."""
    got = answer.own
    mine = np.flatnonzero(alone[standbys.task])
    had = standbys.pairs(standbys.task[mine], standbys.client[mine])
    stays = np.isin(had, got) & standbys.stays[mine]
    placed[mine[stays]] = standbys.client[mine[stays]]
    left = got[~np.isin(got, had[stays])]
    placed[mine[~stays]] = np.sort(left) % len(standbys.group)  # standbys are sorted by task, and so are these


def _stay(standbys: Standbys, answer: StandbyFlow, placed: Int64Array) -> Int64Array:
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


def _go(answer: StandbyFlow, moving: Int64Array, placed: Int64Array) -> None:
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
