"""Computes what no plan by load can do better: the least possible greatest load, and limits that can be kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from samerack.assignors.consumer.load.units import SLACK, LoadUnits
from samerack.assignors.problem import BoolArray, FloatArray
from samerack.assignors.solvers import Layer, network_of, residual_closure, solve

_QUANTA: Final = 1 << 22
"""Parts into which the whole load is cut for a flow."""
_HEAVY: Final = 1.5
"""A unit of this multiple of the average load is heavy."""


def with_room(units: LoadUnits) -> LoadUnits:
    """Return the units with limits of partitions raised by the same number, the least with which all can be placed.

    They are placed whole: of bundles of two partitions, three fit where seven partitions do. Where bundles differ in
    size, it may be less than the least.
    """
    kinds, total = len(units.may_have), int(units.count.sum())
    needs = [(1, np.bincount(units.kind, weights=units.count, minlength=kinds).astype(np.float64))]
    needs += [
        (size, np.bincount(units.kind[units.count >= size], minlength=kinds).astype(np.float64))
        for size in np.unique(units.count[units.count > 1]).tolist()
    ]
    most = np.minimum(units.most, total)
    low, high = 0, total
    while low < high:
        more = (low + high) // 2 if low else 0  # mostly none is needed
        room = most + more
        if any(_short(need, units.may_have, (room // size).astype(np.float64)).any() for size, need in needs):
            low = more + 1
        else:
            high = more
    return replace(units, most=most + low)


def with_limits(units: LoadUnits) -> LoadUnits:
    """Return the units with what limits of partitions mean for loads, and members that are not to be without any.

    Where some units are heavy, a member that may have k partitions carries no more than k average ones do: else the
    heaviest would go to it, as it cannot have many others. No member is without a unit, if there are enough for all.
    """
    limited = (units.most > 0) & (units.most < int(units.count.sum()))
    average = float(units.load.sum()) / max(1, int(units.count.sum()))
    capacity = units.capacity
    heaviest = float(units.load.max(initial=0.0))
    if limited.any() and heaviest > _HEAVY * average and (level := lower_bound(units)) > 0:
        capacity = np.where(limited, np.minimum(capacity, units.most * average / level), capacity)
    patterns, of = np.unique(units.may_have, axis=1, return_inverse=True)
    wanting = (units.most > 0) & units.may_have.any(axis=0)
    members = np.bincount(of.ravel()[wanting], minlength=patterns.shape[1]).astype(np.float64)
    by_kind = np.bincount(units.kind, minlength=len(units.may_have)).astype(np.float64)
    enough = not _short(members, patterns.T, by_kind).any()
    return replace(units, capacity=capacity, wants=wanting & enough)


def lower_bound(units: LoadUnits) -> float:
    """Return a lower bound of the greatest relative load of any plan.

    It is the greatest of four: the load by which members that can take it are filled evenly if units can be split (a
    flow by kinds), the heaviest unit on the strongest member that may have it, the lightest k + 1 of the k M + 1
    heaviest units, as one of M members has k + 1 of them, and the lightest of the k heaviest on the k-th strongest
    member, or twice on the strongest.
    """
    ordered = np.sort(units.load)[::-1]
    strongest = np.where(units.may_have, units.capacity, 0.0).max(axis=1)
    heaviest = float((units.load / strongest[units.kind]).max(initial=0.0))
    members, total = len(units.capacity), len(ordered)
    times = np.arange(1, (total - 1) // members + 1)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    together = sums[times * members + 1] - sums[times * members - times]
    strong = np.sort(units.capacity)[::-1]
    pigeons = float(together.max(initial=0.0)) / float(strong[0])
    few = min(members, total)
    alone = np.minimum(ordered[:few] / strong[:few], 2.0 * ordered[:few] / strong[0])
    return max(_even_level(units, sums), heaviest, pigeons, float(alone.max(initial=0.0)))


def _even_level(units: LoadUnits, sums: FloatArray) -> float:
    """Return the least level to which all load fits if units can be split, by the cuts of flows from kinds to members.

    A member that may have k partitions cannot take more than the k heaviest, whatever its capacity.
    """
    by_kind = np.bincount(units.kind, weights=units.load, minlength=len(units.may_have)).astype(np.float64)
    least = int(units.count.min(initial=1))
    ceiling = sums[np.minimum(units.most // max(least, 1), len(sums) - 1)]
    level = 0.0
    takes = by_kind > 0
    while takes.any():
        members = units.may_have[takes].any(axis=0)
        higher = _level_of(float(by_kind[takes].sum()), units.capacity[members], ceiling[members])
        if higher <= level * (1 + SLACK):
            break
        level = higher
        takes = _short(by_kind, units.may_have, np.minimum(level * units.capacity, ceiling))
    return level


def _level_of(load: float, capacity: FloatArray, ceiling: FloatArray) -> float:
    """Return the level at which members take the load, none more than its ceiling."""
    order = np.argsort(ceiling / capacity)
    full = np.concatenate([[0.0], np.cumsum(ceiling[order])])[:-1]
    rest = np.cumsum(capacity[order][::-1])[::-1]
    levels = (load - full) / rest
    fits = np.flatnonzero(levels <= (ceiling / capacity)[order])
    return float(levels[fits[0]] if len(fits) else (ceiling / capacity).max())


def _short(by_kind: FloatArray, may_have: BoolArray, room: FloatArray) -> BoolArray:
    """Return [K] kinds that together have more load than their members have room, none if all fits."""
    kinds = len(may_have)
    if kinds == 1:
        return np.array([by_kind[0] > float(room[may_have[0]].sum()) * (1 + SLACK)])
    scale = _QUANTA / max(float(by_kind.sum()), 1e-300)
    supply = np.floor(by_kind * scale).astype(np.int64)
    takes = np.minimum(np.ceil(room * scale) + 1, 2 * _QUANTA).astype(np.int64)
    patterns, of = np.unique(may_have, axis=1, return_inverse=True)
    group_room = np.bincount(of.ravel(), weights=takes, minlength=patterns.shape[1]).astype(np.int64)
    kind, group = np.nonzero(patterns)
    first, sink = kinds, kinds + patterns.shape[1]
    total = int(supply.sum())
    groups = np.arange(patterns.shape[1])
    ends = np.full(len(groups), sink)
    network = network_of(
        np.concatenate([supply, np.zeros(len(groups), np.int64), [-total]]),
        (
            Layer(kind, first + group, total),
            Layer(first + groups, ends, group_room),
            Layer(first + groups, ends, total, (1,)),
        ),
    )
    flow = solve(network)
    over = flow[len(kind) + len(groups) :]
    if not over.any():
        return np.zeros(kinds, np.bool_)
    start = np.zeros(len(network.supply), np.bool_)
    start[first + groups[over > 0]] = True
    inner = np.arange(len(kind))
    # a group that is too full could give to another group what is in front of it: those kinds and groups are short
    closure = residual_closure(
        tail=network.tail[inner],
        head=network.head[inner],
        more=np.ones(len(inner), np.bool_),
        less=flow[inner] > 0,
        start=start,
    )
    return closure[:kinds]
