"""Plans by a flow of loads, in which units may be split, and then deals whole units by it.

Units of one kind whose racks are alike, and whose cross-rack weight per load is about the same, are a pool. A flow of
quanta of load decides how much of each pool stays with its owners, and how much goes to which group of members:

    pool ──┬── member that owns some of it, no move ──┐
           └── group, at the price of its column, a move ── member ── at most the limit, evenly if that is free

Units stay or go as whole units by these amounts. The members of a group then get those that come to it, the heaviest
first, so that they are filled evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from samerack.assignors.arrays import combine, first_of_each
from samerack.assignors.consumer.load.exchange import mended
from samerack.assignors.consumer.load.units import SLACK, LoadUnits
from samerack.assignors.problem import NOBODY, BoolArray, FloatArray, Int32Array, Int64Array
from samerack.assignors.solvers import Layer, Network, network_of, solve

_QUANTA: Final = 1 << 22
"""Parts into which the whole load is cut for the flow."""
_MAX_RATIO: Final = 30
"""Powers of two between the least and the greatest cross-rack weight per load that the flow distinguishes."""
_TINY: Final = 0.002
"""Units below this share of what a member, or a group, gets are dealt by their sum instead of one after the other."""
_SPREAD: Final = (5**0.5 - 1) / 2
"""Multiples of it, without their whole parts, lie evenly between 0 and 1, however many they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pools:
    """The pools: [U] quanta and pool of each unit, their number, a unit of each, [pools, G] the price of a quantum."""

    amount: Int64Array
    of: Int32Array
    count: int
    some: Int64Array
    price: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class _Classes:
    """Units with owners, by pool and owner: the units, the class of each, and size, pool and owner of each class."""

    unit: Int64Array
    of: Int32Array
    size: Int64Array
    pool: Int32Array
    home: Int32Array


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bins:
    """B bins to fill evenly.

    Attributes:
        level: [B] load that is already in the bin.
        capacity: [B] of the bin.
        room: [B] partitions that it may still have.
        tiny: units of no more load are dealt by their sum.
    """

    level: FloatArray
    capacity: FloatArray
    room: Int64Array
    tiny: float


def plan_within(units: LoadUnits, limit: float, *, even: float) -> Int32Array:
    """Return [U] members who have at most this relative load, as far as that was found, and at most `even` if free."""
    stays, goes = _shares(units, limit, even)
    member = np.where(stays, units.home, NOBODY).astype(np.int32)
    load = np.bincount(units.home[stays], weights=units.load[stays], minlength=len(units.capacity)).astype(np.float64)
    count = np.bincount(units.home[stays], weights=units.count[stays], minlength=len(units.capacity)).astype(np.int64)
    for group in np.unique(goes[~stays]).tolist():
        moving = np.flatnonzero(~stays & (goes == group))
        members = np.flatnonzero(units.group == group)
        capacity = units.capacity[members]
        water = _water_level(float(units.load[moving].sum()), load[members], capacity)
        bins = _Bins(
            level=load[members],
            capacity=capacity,
            room=units.most[members] - count[members],
            tiny=_TINY * water * float(capacity.min()),
        )
        member[moving] = members[_filled(units, moving, bins)]
    return mended(units, member, limit)


def _shares(units: LoadUnits, limit: float, even: float) -> tuple[BoolArray, Int32Array]:
    """Return [U] whether the unit stays with its owner, and [U] the group of members that it goes to if not."""
    groups, total = int(units.group.max(initial=0)) + 1, float(units.load.sum())
    has_home = (units.home != NOBODY) & units.may_have[units.kind, units.home]
    if groups == 1 and not has_home.any():
        return np.zeros(len(units.load), np.bool_), np.zeros(len(units.load), np.int32)
    scale = _QUANTA / max(total, 1e-300)
    amount = np.maximum(np.rint(units.load * scale), 1).astype(np.int64)
    pools = _pools_of(units, amount)
    classes = _classes_of(units, pools, has_home)
    some_member = first_of_each(units.group, groups)
    ways = np.stack(np.nonzero(units.may_have[:, some_member][units.kind[pools.some]]))
    takes = np.stack([_may_take(units, most) for most in (min(even, limit), limit)]) * scale
    flow = solve(_network(units, pools, classes, ways, takes.astype(np.int64)))
    kept, sent = np.split(flow, [len(classes.size), len(classes.size) + ways.shape[1]])[:2]
    stays = np.zeros(len(units.load), np.bool_)
    stays[classes.unit] = _keep(classes, kept, amount[classes.unit])
    return stays, _sent(units, pools, ways, sent, stays)


def _may_take(units: LoadUnits, limit: float) -> FloatArray:
    """Return [M] load that each member takes at most: its limit, or the average of the partitions that it may have."""
    average = float(units.load.sum()) / max(1, int(units.count.sum()))
    take: FloatArray = np.minimum(limit * units.capacity, units.most * average)
    return take


def _pools_of(units: LoadUnits, amount: Int64Array) -> _Pools:
    prices = units.prices[units.price]
    highest = prices.max(axis=1, initial=0)
    dear = highest > 0
    power = np.zeros(len(amount), np.int64)
    power[dear] = np.rint(np.log2(highest[dear] / amount[dear])).astype(np.int64)
    least = int(power.min(where=dear, initial=np.iinfo(np.int64).max)) if dear.any() else 0
    power = np.where(dear, np.minimum(power - least, _MAX_RATIO), 0)
    patterns, pattern = np.unique(units.prices > 0, axis=0, return_inverse=True)
    keys, count = combine(units.kind, len(units.may_have), pattern.ravel()[units.price], len(patterns))
    keys, count = combine(keys, count, power, _MAX_RATIO + 1)
    some = first_of_each(keys, count)
    return _Pools(
        amount=amount,
        of=keys,
        count=count,
        some=some,
        price=np.where(prices[some] > 0, 1 << power[some][:, np.newaxis], 0),
    )


def _classes_of(units: LoadUnits, pools: _Pools, has_home: BoolArray) -> _Classes:
    unit = np.flatnonzero(has_home)
    of, count = combine(pools.of[unit], pools.count, units.home[unit], len(units.capacity))
    some = unit[first_of_each(of, count)]
    return _Classes(
        unit=unit,
        of=of,
        size=np.bincount(of, weights=pools.amount[unit], minlength=count).astype(np.int64),
        pool=pools.of[some],
        home=units.home[some],
    )


def _network(units: LoadUnits, pools: _Pools, classes: _Classes, ways: Int64Array, takes: Int64Array) -> Network:
    """Return the network in the module's text; its first arcs are those of classes, then those of `ways`, [2, W].

    Members take the first row of `takes`, [2, M], and up to the second at a cost after moves. What does not fit is
    above the limit, at a price before all others.
    """
    pool, group = ways
    members, groups = len(units.capacity), int(units.group.max()) + 1
    first_group, first_member = pools.count, pools.count + groups
    sink = first_member + members
    supply = np.bincount(pools.of, weights=pools.amount, minlength=pools.count).astype(np.int64)
    everything, member = int(supply.sum()), np.arange(members)

    ends = np.full(members, sink)
    stay_price = pools.price[classes.pool, units.column[classes.home]]
    go_price = pools.price[pool, units.column_of_group[group]]
    return network_of(
        np.concatenate([supply, np.zeros(groups + members, np.int64), [-everything]]),
        (
            Layer(classes.pool, first_member + classes.home, classes.size, (0, stay_price)),
            Layer(pool, first_group + group, everything, (0, go_price, 1)),
            Layer(first_group + units.group, first_member + member, everything),
            Layer(first_member + member, ends, takes[0]),
            Layer(first_member + member, ends, takes[1] - takes[0], (0, 0, 0, 1)),
            Layer(first_member + member, ends, everything, (1,)),
        ),
    )


def _keep(classes: _Classes, kept: Int64Array, amount: Int64Array) -> BoolArray:
    """Return whether each unit of the classes stays: those that leave are few, and weigh what the flow sends away."""
    stays = np.ones(len(classes.of), np.bool_)
    order = np.lexsort((amount, classes.of))
    bounds = np.searchsorted(classes.of[order], np.arange(len(classes.size) + 1))
    for number in np.flatnonzero(kept < classes.size).tolist():
        mine = order[bounds[number] : bounds[number + 1]]
        if not kept[number]:
            stays[mine] = False
            continue
        leaving, end = int(classes.size[number] - kept[number]), len(mine)
        while leaving > 0:
            end = min(end, int(np.searchsorted(amount[mine], leaving, side="right"))) - 1
            if end < 0:
                break
            stays[mine[end]] = False
            leaving -= int(amount[mine[end]])
    return stays


def _sent(units: LoadUnits, pools: _Pools, ways: Int64Array, sent: Int64Array, stays: BoolArray) -> Int32Array:
    """Return [U] the group that each unit goes to which does not stay, by the amounts `sent` from pools to groups."""
    pool, group = ways
    goes = np.full(len(units.load), NOBODY, np.int32)
    columns = units.column_of_group
    moving = np.flatnonzero(~stays)
    moving = moving[np.argsort(pools.of[moving], kind="stable")]
    begin = np.searchsorted(pools.of[moving], np.arange(pools.count + 1))
    first = np.searchsorted(pool, np.arange(pools.count + 1))
    by_group = np.bincount(group, weights=sent)
    tiny = _TINY * float(by_group[by_group > 0].min(initial=np.inf)) * float(units.load.sum()) / _QUANTA
    for number in range(pools.count):
        mine, among = moving[begin[number] : begin[number + 1]], slice(first[number], first[number + 1])
        if not len(mine):
            continue
        share, to = sent[among], group[among]
        if not share.any():  # whole units leave although no load does
            price = pools.price[number, columns[to]]
            share = (price == price.min()).astype(np.int64)
        to, capacity = to[share > 0], share[share > 0].astype(np.float64)
        endless = np.full(len(to), len(units.load) * int(units.count.max(initial=1)))
        bins = _Bins(level=np.zeros(len(to)), capacity=capacity, room=endless, tiny=tiny)
        goes[mine] = to[_filled(units, mine, bins)]
    return goes


def _filled(units: LoadUnits, moving: Int64Array, into: _Bins) -> Int64Array:
    """Return [N] the bin of each unit of `moving`, so that bins are filled evenly: heavy units first, one each in turn.

    Units of one load are dealt at once: each bin gets as many as it has room for, the emptiest first.
    """
    bins, capacity = np.zeros(len(moving), np.int64), into.capacity
    if len(capacity) == 1:
        return bins
    level, room = into.level.astype(np.float64), into.room.copy()
    loads, counts = units.load[moving], units.count[moving]
    order = np.argsort(-loads, kind="stable")
    alike = np.searchsorted(-loads[order], -loads[order], side="right")
    left, at, most = float(loads.sum()), 0, int(counts.max(initial=1))
    while at < len(order) and (heaviest := float(loads[order[at]])) > into.tiny:
        water = _water_level(left, level, capacity)
        open_ = room > 0 if (room > 0).any() else np.ones(len(room), np.bool_)
        spare = np.where(open_, water * capacity - level, -np.inf)
        takers = np.argsort(-spare, kind="stable")[: int((spare >= heaviest * (1 - SLACK)).sum())]
        if not len(takers):  # those that would get a first one before any would get a second
            height = np.where(open_, (level + heaviest) / capacity, np.inf)
            first = int((height <= (height + heaviest / capacity).min()).sum())
            takers = np.argsort(height, kind="stable")[: min(first, int(alike[at]) - at)]
        elif alike[at] - at > len(takers):
            takers = _in_turn(takers, spare[takers], room[takers] // most, heaviest)[: alike[at] - at]
        dealt = order[at : at + len(takers)]
        takers = takers[: len(dealt)]
        bins[dealt] = takers
        level += np.bincount(takers, weights=loads[dealt], minlength=len(level))
        np.subtract.at(room, takers, counts[dealt])
        left -= float(loads[dealt].sum())
        at += len(dealt)
    rest = order[at:]
    if len(rest):  # heavy and light ones in turn, so that each bin gets its part of both
        rest = rest[np.argsort(np.arange(len(rest)) * _SPREAD % 1.0, kind="stable")]
        bins[rest] = _by_sum(loads[rest], np.maximum(_water_level(left, level, capacity) * capacity - level, 0.0), room)
    return bins


def _in_turn(takers: Int64Array, spare: FloatArray, room: Int64Array, load: float) -> Int64Array:
    """Return the bins of units of one load, in turn: each bin as often as it has room, but at least once."""
    times = np.maximum(np.minimum(spare / load + SLACK, room), 1).astype(np.int64)
    each = np.repeat(np.arange(len(takers)), times)
    turn = np.arange(len(each)) - np.repeat(np.cumsum(times) - times, times)
    return takers[each[np.argsort(turn * load - spare[each], kind="stable")]]


def _by_sum(loads: FloatArray, amounts: FloatArray, room: Int64Array) -> Int64Array:
    """Return the bin of each tiny unit, by running sums: bins get these amounts, and no more units than they may."""
    average = float(loads.mean())
    if not average:
        loads, average = np.ones(len(loads)), 1.0
        amounts = np.full(len(amounts), len(loads) / len(amounts))
    amounts = np.minimum(amounts, np.maximum(room, 0) * average)
    if not amounts.any():
        amounts = np.ones(len(amounts))
    ends = np.cumsum(amounts)
    middle = (np.cumsum(loads) - loads / 2) * (ends[-1] / loads.sum())
    bins: Int64Array = np.minimum(np.searchsorted(ends, middle), len(ends) - 1)
    return bins


def _water_level(load: float, level: FloatArray, capacity: FloatArray) -> float:
    """Return the relative level to which this load fills the bins; those above it get nothing."""
    height = level / capacity
    order = np.argsort(height)
    levels = (load + np.cumsum(level[order])) / np.cumsum(capacity[order])
    return float(levels[np.flatnonzero(levels >= height[order] * (1 - SLACK))[-1]])
