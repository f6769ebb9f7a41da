"""Computes by flows the best spread of topics over members at equal loads, cross-rack weight and moves.

Exchanges of two partitions (`assignors.consumer.spread`) stop where only a longer chain would improve the plan, or
where another member should have the extra partition. Here a seat is a cell, a member's part of a topic, and each
further unit costs the cell more than the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samerack.assignors.arrays import combine, ranges
from samerack.assignors.balance import Spread
from samerack.assignors.consumer.locality import Locality
from samerack.assignors.flow import Units, one_claim_each, place, seats_by_kind
from samerack.assignors.problem import NOBODY, BoolArray, Int32Array, Int64Array, Problem

_MAX_ARCS: Final = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The plans to choose among.

    Attributes:
        may_have: [S, T] topics whose partitions members with the subscription may have.
        share_of: [M] group of `spread` whose loads the member has.
        spread: the loads.
        spare_moves: how many partitions may move beyond the fewest to reduce the largest number.
    """

    may_have: BoolArray
    share_of: Int32Array
    spread: Spread
    spare_moves: int = 0


def spread_exactly(problem: Problem, near: Locality, plan: Int32Array, room: Room) -> Int32Array:
    """Minimize the largest number of a topic's partitions on one member, then the sum of squares of these numbers.

    Args:
        problem: the group.
        near: its columns and prices.
        plan: [P] member of each partition: optimal in cross-rack weight and moves.
        room: what each member may have, and how much may move.

    Returns:
        [P] member of each partition; the plan itself if none is better or the group is too large.
    """
    if len(problem.members) * len(problem.topics) > _MAX_ARCS:
        return plan
    may_have = room.may_have[problem.subscription_of]
    count = count_cells(problem, plan)
    sizes, readers = count.sum(axis=0), np.maximum(may_have.sum(axis=0), 1)
    floor, rest = np.divmod(sizes, readers)
    if (count**2).sum() == (readers * floor**2 + rest * (2 * floor + 1)).sum():
        return plan  # every topic is as even as it can be
    low, high = int((floor + (rest > 0)).max()), int(count.max())
    max_moves = _moves(problem, plan) + room.spare_moves
    pools = combine(problem.topic_of, len(sizes), near.price, len(near.prices))[1]
    if pools * near.prices.shape[1] + int((may_have * np.minimum(sizes, high)).sum()) > _MAX_ARCS:
        return plan
    cells = _Cells(problem, near, room, may_have, np.minimum(sizes, high))
    best = None
    while low < high:
        middle = (low + high) // 2
        found = cells.plan(middle)
        largest = int(count_cells(problem, found).max())
        if largest <= middle and _moves(problem, found) <= max_moves:
            best, high = found, largest
        else:
            low = middle + 1
    if best is None:
        best = cells.plan(high)
    return best if _rank(count_cells(problem, best)) < _rank(count) else plan


def count_cells(problem: Problem, plan: Int32Array) -> Int64Array:
    """Return [M, T] the number of partitions of each topic that each member has."""
    members, topics = len(problem.members), len(problem.topics)
    cell = plan.astype(np.int64) * topics + problem.topic_of
    return np.bincount(cell, minlength=members * topics).reshape(members, topics)


def _moves(problem: Problem, plan: Int32Array) -> int:
    return int(((plan != problem.owner) & (problem.owner != NOBODY)).sum())


def _rank(count: Int64Array) -> tuple[int, int]:
    return int(count.max()), int((count**2).sum())


class _Cells:
    """The group as units of topics and seats that are cells, in the order of members."""

    def __init__(self, problem: Problem, near: Locality, room: Room, may_have: BoolArray, most: Int64Array) -> None:
        """Build units and seats; `may_have` is [M, T] by member, `most` [T] the most of a topic on any member."""
        self._member, topic = np.nonzero(may_have)
        cell = np.full(may_have.shape, NOBODY, np.int32)
        cell[self._member, topic] = np.arange(len(topic))
        self._units = Units(
            kind=problem.topic_of,
            kinds=may_have.shape[1],
            price=near.price,
            prices=near.prices,
            claim=np.where(problem.owner == NOBODY, NOBODY, cell[problem.owner, problem.topic_of]) + np.int32(1),
            claims=one_claim_each(len(topic)),
        )
        self._step = 1 + ranges(np.zeros(len(topic), np.int64), most[topic])
        rising = np.repeat(np.arange(len(topic)), most[topic])
        band = room.spread.band[room.share_of]
        stretching = np.flatnonzero(room.spread.extras[band] > 0)
        member_node, band_node = len(topic), len(topic) + len(may_have)
        self._seats = seats_by_kind(
            topic,
            near.column[self._member],
            demand=np.concatenate(
                [np.zeros(len(topic), np.int64), room.spread.floor[room.share_of], room.spread.extras]
            ),
            tail=np.concatenate([rising, member_node + stretching]).astype(np.int32),
            head=np.concatenate([member_node + self._member[rising], band_node + band[stretching]]).astype(np.int32),
            capacity=np.ones(len(rising) + len(stretching), np.int64),
        )

    def plan(self, cap: int) -> Int32Array:
        """Return [P] members with the fewest units above `cap` in cells, then the fewest moves, then least squares."""
        others = np.zeros(len(self._seats.tail) - len(self._step), np.int64)
        seats = replace(
            self._seats,
            toll=np.concatenate([(self._step > cap).astype(np.int64), others]),
            cost=np.concatenate([2 * self._step - 1, others]),
        )
        return self._member[place(self._units, seats, interleaved=True)].astype(np.int32)
