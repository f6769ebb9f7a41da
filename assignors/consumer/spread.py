"""Chooses among plans of equal loads, cross-rack weight and moves: the last levels of the objective of `optimal`.

1. topics: a member that has all of a topic is the only reader of what may be the busiest topic. The measure is the
   largest number of a topic's partitions on one member, then the sum of squares of all such numbers.
2. weight: with weights in bytes, a member may read many times as much as others with as many partitions. The measure
   is the sum over members of the squared weight of their partitions.

The input plans are dealt in turns (`assignors.deal`), which is optimal for topics in groups without current owners
whose members are alike. The rest is done by exchanges (`spread_topics`): two members swap two partitions if that
changes neither loads nor cross-rack weight nor moves; no exchange increases the largest number. As no exchange costs a
move, a plan that is in force is never changed for these levels. At the end no exchange of two partitions would improve
the plan, unless the group is so large that the search is bounded (`_MAX_BUDGET`) or left out (`_MAX_PARTITIONS`).

Exchanges stop where only a longer chain would improve the plan, or where another member should have the extra
partition. In groups small enough `spread_exactly` finds the best spread of topics by flows: a seat is a cell, a
member's part of a topic, and each further unit costs the cell more than the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samerack.assignors.arrays import combine, dense_rank, first_of_each, ranges, stable_order, starts_of
from samerack.assignors.balance import Spread
from samerack.assignors.consumer.locality import Locality
from samerack.assignors.flow import Units, one_claim_each, place, seats_by_kind
from samerack.assignors.problem import NOBODY, BoolArray, FloatArray, Int32Array, Int64Array, Problem

_MAX_CELLS: Final = 1 << 23
"""Members times topics above which the counts would need too much memory."""
_MAX_PARTITIONS: Final = 1 << 18
"""Above this the deal in turns has to do: to examine the movers would take longer than the plan itself."""
_CANDIDATE: Final = 1_000
"""Fixed cost of examining a mover, in budget units; each possible partner costs one more."""
_MIN_BUDGET: Final = 50_000
_BUDGET_PER_PARTITION: Final = 5
_MAX_BUDGET: Final = 200_000
"""Some milliseconds, in the largest groups up to twenty. The worst movers are examined first."""
_ALL_MOVERS: Final = 4096
"""With more movers than this, only those on the members that are likely to improve the plan are partners."""
_LIKELY: Final = 8
"""Number of such members of each sort: with the least of the topic, with the least weight, with the most weight."""
_MIN_DIFFERENCE: Final = 2
"""An exchange spreads topics better if the differences of both topics sum to more than this."""
_MAX_ARCS: Final = 8_192
"""Arcs of a flow up to which topics are spread exactly."""


def spread_topics(problem: Problem, near: Locality, plan: Int32Array) -> Int32Array:
    """Return a plan of the same loads, cross-rack weight and moves, improved by exchanges of two partitions.

    Args:
        problem: the group.
        near: its columns and prices.
        plan: [P] member of each partition, which subscribes to the topic.

    Returns:
        [P] member of each partition.

    Complexity: O(P + M * T), and O(movers) for each mover on a member with too much of its topic, or each where
    weights differ, up to a bound.
    """
    if len(problem.members) * len(problem.topics) > _MAX_CELLS or len(plan) > _MAX_PARTITIONS:
        return plan
    exchange = _Exchanges(problem, near, plan)
    while exchange.budget > 0 and exchange.improve():
        pass
    return exchange.member


class _Exchanges:
    """A plan that is improved in place."""

    def __init__(self, problem: Problem, near: Locality, plan: Int32Array) -> None:
        self.member = plan.copy()
        self.budget = min(_MAX_BUDGET, _MIN_BUDGET + _BUDGET_PER_PARTITION * len(plan))
        members = len(problem.members)
        self._topic, self._owner = problem.topic_of, problem.owner
        self._price, self._prices, self._column = near.price, near.prices, near.column
        self._weight, self._weights = self._ranked(problem.weights, len(plan))
        self._load = np.zeros(members, np.int64)
        np.add.at(self._load, plan, self._weights[self._weight])
        self._reads = problem.subscriptions
        self._reader = problem.subscription_of
        self._count = _count_cells(problem, plan).astype(np.int32)
        self._moving = np.flatnonzero(plan != self._owner)
        self._owned = stable_order(self._owner + np.int32(1), members + 1)
        self._largest = 0
        self._by_member, self._first_at = np.empty(0, np.int64), np.empty(0, np.int64)
        self._first_owned = starts_of(np.bincount(self._owner + 1, minlength=members + 1))

    @staticmethod
    def _ranked(weights: Int64Array | None, partitions: int) -> tuple[Int32Array, Int64Array]:
        """Return [P] index of each partition's weight among the distinct weights, and these weights."""
        if weights is None:
            return np.zeros(partitions, np.int32), np.ones(1, np.int64)
        return dense_rank(weights, int(weights.max(initial=0)) + 1)

    def improve(self) -> bool:
        """Examine once every mover that may take part in an exchange; return whether any exchange was made."""
        made = False
        self._largest = int(self._count.max())
        self._by_member = self._moving[stable_order(self.member[self._moving], len(self._load))]
        self._first_at = starts_of(np.bincount(self.member[self._moving], minlength=len(self._load)))
        for mover in self._candidates().tolist():
            if self.member[mover] == self._owner[mover]:
                continue  # an exchange returned it to its owner
            made |= self._exchange(mover)
            if self.budget < 0:
                break
        return made

    def _candidates(self) -> Int64Array:
        """Return one mover per member, topic, price, weight and owner; those with the most of their topic first."""
        least = self._least()
        over = self._count - least
        too_full: BoolArray = over.max(axis=1, initial=0) >= _MIN_DIFFERENCE
        at, topic, owner = self.member[self._moving], self._topic[self._moving], self._owner[self._moving]
        height = over[at, topic]
        examined = (height >= _MIN_DIFFERENCE) | ((owner != NOBODY) & too_full[owner])
        if len(self._weights) > 1:
            examined |= self._heaviest()[at]
        movers, height = self._moving[examined], height[examined]
        members, topics = self._count.shape
        keys, count = combine(at[examined], members, topic[examined], topics)
        keys, count = combine(keys, count, self._price[movers], len(self._prices))
        keys, count = combine(keys, count, self._weight[movers], len(self._weights))
        keys, count = combine(keys, count, owner[examined] + np.int32(1), members + 1)
        some = first_of_each(keys, count)
        heavy = self._load[self.member[movers[some]]]
        ordered: Int64Array = movers[some[np.lexsort((-heavy, -height[some]))]]
        return ordered

    def _heaviest(self) -> BoolArray:
        """Return [M] members whose movers are examined for weight: in large groups those with the most weight."""
        if len(self._moving) <= _ALL_MOVERS:
            return np.ones(len(self._load), np.bool_)
        found = np.zeros(len(self._load), np.bool_)
        found[np.argsort(self._load, kind="stable")[-_LIKELY:]] = True
        return found

    def _least(self) -> Int32Array:
        """Return [T] the least number of the topic's partitions on any subscriber."""
        most = np.int32(len(self.member))
        rows = [
            np.where(reads, self._count[self._reader == number].min(axis=0, initial=most), most)
            for number, reads in enumerate(self._reads)
        ]
        least: Int32Array = np.min(rows, axis=0).astype(np.int32)
        return least

    def _exchange(self, mover: int) -> bool:
        """Make the exchange of this mover that improves the plan most; return whether there was one."""
        owner = int(self._owner[mover])
        movers = self._other_movers(mover)
        movers = movers[self._owner[movers] != self.member[mover]]
        if owner != NOBODY:
            movers = movers[self.member[movers] != owner]
            mine = self._owned[self._first_owned[owner + 1] : self._first_owned[owner + 2]]
            partners = np.concatenate([movers, mine[self.member[mine] == owner]])
        else:
            partners = movers
        self.budget -= _CANDIDATE + len(partners)
        partners = partners[self._cost_nothing(mover, partners)]
        if not len(partners):
            return False
        topics, weight = self._topic_gain(mover, partners), self._weight_gain(mover, partners)
        best = int(np.lexsort((weight, topics))[-1])
        if topics[best] < 0 or (topics[best] == 0 and weight[best] <= 0):
            return False
        self._swap(mover, int(partners[best]))
        return True

    def _other_movers(self, mover: int) -> Int64Array:
        if len(self._moving) <= _ALL_MOVERS:
            return self._moving
        by_weight = np.argsort(self._load, kind="stable")
        by_count = np.argsort(self._count[:, self._topic[mover]], kind="stable")
        likely = np.unique(np.concatenate([by_count[:_LIKELY], by_weight[:_LIKELY], by_weight[-_LIKELY:]]))
        return np.concatenate([self._by_member[self._first_at[at] : self._first_at[at + 1]] for at in likely.tolist()])

    def _topic_gain(self, mover: int, partners: Int64Array) -> Int32Array:
        """Return half of the decrease of the topics' sum of squares by the exchange."""
        here, there = self.member[mover], self.member[partners]
        given, taken = self._topic[mover], self._topic[partners]
        apart = (
            self._count[here, given] - self._count[there, given] + self._count[there, taken] - self._count[here, taken]
        )
        gain: Int32Array = np.where(given == taken, 0, apart - _MIN_DIFFERENCE)
        return gain

    def _weight_gain(self, mover: int, partners: Int64Array) -> FloatArray:
        """Return half of the decrease of the members' squared weights by the exchange; its sign is exact."""
        more = self._weights[self._weight[mover]] - self._weights[self._weight[partners]]
        apart = self._load[self.member[mover]] - self._load[self.member[partners]]
        gain: FloatArray = more.astype(np.float64) * (apart - more)
        return gain

    def _cost_nothing(self, mover: int, partners: Int64Array) -> BoolArray:
        """Return whether both members read both topics, no number exceeds the largest, and cross-rack weight is equal.

        Two partitions on one member are no exchange.
        """
        here, there = self.member[mover], self.member[partners]
        here_column, there_column = self._column[here], self._column[there]
        given, taken = self._topic[mover], self._topic[partners]
        mine, theirs = self._prices[self._price[mover]], self._price[partners]
        before = mine[here_column] + self._prices[theirs, there_column]
        after = mine[there_column] + self._prices[theirs, here_column]
        may: BoolArray = (
            self._reads[self._reader[there], given]
            & self._reads[self._reader[here], taken]
            & ((given == taken) | (np.maximum(self._count[there, given], self._count[here, taken]) < self._largest))
            & (before == after)
            & (here != there)
        )
        return may

    def _swap(self, mover: int, partner: int) -> None:
        here, there = self.member[mover], self.member[partner]
        for partition, old, new in ((mover, here, there), (partner, there, here)):
            self._count[old, self._topic[partition]] -= 1
            self._count[new, self._topic[partition]] += 1
            self._load[old] -= self._weights[self._weight[partition]]
            self._load[new] += self._weights[self._weight[partition]]
            self.member[partition] = new
        if self.member[mover] == self._owner[mover]:
            self._moving[self._moving == mover] = partner  # the mover is back at its owner; the partner moves instead


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The plans to choose among.

    Attributes:
        may_have: [S, T] topics whose partitions members with the subscription may have.
        share_of: [M] group of `spread` whose loads the member has.
        spread: the loads.
    """

    may_have: BoolArray
    share_of: Int32Array
    spread: Spread


def spread_exactly(problem: Problem, near: Locality, plan: Int32Array, room: Room) -> Int32Array:
    """Minimize the largest number of a topic's partitions on one member, then the sum of squares of these numbers.

    Args:
        problem: the group.
        near: its columns and prices.
        plan: [P] member of each partition: optimal in cross-rack weight and moves.
        room: what each member may have.

    Returns:
        [P] member of each partition; the plan itself if none is better or the group is too large.
    """
    if len(problem.members) * len(problem.topics) > _MAX_ARCS:
        return plan
    may_have = room.may_have[problem.subscription_of]
    count = _count_cells(problem, plan)
    sizes, readers = count.sum(axis=0), np.maximum(may_have.sum(axis=0), 1)
    floor, rest = np.divmod(sizes, readers)
    if (count**2).sum() == (readers * floor**2 + rest * (2 * floor + 1)).sum():
        return plan  # every topic is as even as it can be
    low, high = int((floor + (rest > 0)).max()), int(count.max())
    max_moves = _moves(problem, plan)
    pools = combine(problem.topic_of, len(sizes), near.price, len(near.prices))[1]
    if pools * near.prices.shape[1] + int((may_have * np.minimum(sizes, high)).sum()) > _MAX_ARCS:
        return plan
    cells = _Cells(problem, near, room, may_have, np.minimum(sizes, high))
    best = None
    while low < high:
        middle = (low + high) // 2
        found = cells.plan(middle)
        largest = int(_count_cells(problem, found).max())
        if largest <= middle and _moves(problem, found) <= max_moves:
            best, high = found, largest
        else:
            low = middle + 1
    if best is None:
        best = cells.plan(high)
    return best if _rank(_count_cells(problem, best)) < _rank(count) else plan


def _count_cells(problem: Problem, plan: Int32Array) -> Int64Array:
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
