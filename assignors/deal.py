"""Assigns a seat to every unit from the units on arcs that `assignors.flow` computes for classes.

Deterministic: the first units of a class stay; the others go in ascending order, either in runs to ascending seats or
to the seats in turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from samerack.assignors.arrays import IntArray, ranges, stable_order
from samerack.assignors.problem import NOBODY, Int32Array, Int64Array

_POSITION_BITS: Final = 32
"""Precision of the position of a unit among those of its holder."""
_TILE: Final = 4096
"""Holders with more units are dealt a sequence of about this length repeatedly; sorting them all takes too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Classes and pools of the units, and the valid claims of each class.

    Attributes:
        of: [U] class of the unit.
        size: [N] units of the class.
        pool: [N] pool of the class.
        pool_kind: [L] kind of the pool's units.
        pool_price: [L] price row of the pool's units.
        claiming: [J] class of each claim that its kind allows, ascending.
        entry: [J] index of the claim among the entries of `SeatClaims`.
    """

    of: Int32Array
    size: Int64Array
    pool: Int64Array
    pool_kind: Int64Array
    pool_price: Int64Array
    claiming: Int64Array
    entry: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Arcs:
    """One layer of arcs: [A] the holder (class, pool, hub, group) whose units take it, ascending, and the target."""

    holder: IntArray
    target: IntArray
    tail: IntArray
    head: IntArray
    price: IntArray | int = 0
    moves: IntArray | int = 0
    toll: IntArray | int = 0
    cost: IntArray | int = 0
    capacity: IntArray | int


def hand_out(
    classes: Classes, layers: tuple[Arcs, ...], flows: list[Int64Array], *, interleaved: bool = False
) -> Int32Array:
    """Return a seat for every unit.

    Args:
        classes: the units.
        layers: the arcs.
        flows: units on each arc, by layer.
        interleaved: neighbours go to different seats, as evenly as the flows allow, instead of to one.
    """
    seat = _keep(classes, layers[0], flows[0])
    moving = np.flatnonzero(seat == NOBODY)
    where: IntArray = classes.pool[classes.of[moving]]
    for arcs, flow in zip(layers[2:], flows[2:5], strict=True):
        where = _deal(where, arcs.holder, arcs.target, flow, interleaved=interleaved)
    seat[moving] = where
    return seat


def _keep(classes: Classes, claims: Arcs, flow: Int64Array) -> Int32Array:
    """Return the seats of the units that keep one, NOBODY for the others; the first units of a class stay."""
    seat_of_class = np.full(len(classes.size), NOBODY, np.int32)
    whole = flow == classes.size[claims.holder]
    seat_of_class[claims.holder[whole]] = claims.target[whole]
    seat = seat_of_class[classes.of]
    kept = np.bincount(claims.holder, weights=flow, minlength=len(classes.size)).astype(np.int64)
    torn = (kept > 0) & (seat_of_class == NOBODY)
    units, entries, leaving = np.flatnonzero(torn[classes.of]), torn[claims.holder], np.flatnonzero(torn)
    holder = np.concatenate([claims.holder[entries], leaving])
    target = np.concatenate([claims.target[entries], np.full(len(leaving), NOBODY)])
    count = np.concatenate([flow[entries], (classes.size - kept)[leaving]])
    order = np.argsort(holder, kind="stable")
    seat[units] = _deal(classes.of[units], holder[order], target[order], count[order])
    return seat


def _deal(
    keys: IntArray, holder: IntArray, target: IntArray, count: Int64Array, *, interleaved: bool = False
) -> Int32Array:
    """Replace every key by a target: units with a key, in ascending order, take the units on its holder's arcs."""
    dealt = np.empty(len(keys), np.int32)
    order = stable_order(keys, int(holder.max(initial=-1)) + 1)
    if interleaved:
        used = np.flatnonzero(count)
        dealt[order] = target[_in_turns(holder[used], count[used], used)]
    else:
        dealt[order] = np.repeat(target.astype(np.int32), count)
    return dealt


def _in_turns(holder: IntArray, count: Int64Array, arc: Int64Array) -> Int64Array:
    """Return the arcs of each holder in turns, each repeated by its count at even distances.

    Args:
        holder: [A] ascending.
        count: [A] positive.
        arc: [A] number of the arc in the result.

    Returns:
        [sum of counts]; if the counts of a holder differ by at most one, its arcs have equal numbers of entries, or one
        more, in every interval of the holder's entries.
    """
    new = np.flatnonzero(np.diff(holder, prepend=-1))
    total = np.add.reduceat(count, new)
    large = total > _TILE
    if not large.any():
        return _in_turns_together(holder, count, arc)
    dealt = np.empty(int(total.sum()), np.int64)
    begin, ways = np.cumsum(total) - total, np.diff(new, append=len(holder))
    for one in np.flatnonzero(large).tolist():
        of = slice(new[one], new[one] + ways[one])
        dealt[begin[one] : begin[one] + total[one]] = _tiled(count[of], arc[of])
    if not large.all():
        small = ~np.repeat(large, ways)
        dealt[~np.repeat(large, total)] = _in_turns_together(holder[small], count[small], arc[small])
    return dealt


def _tiled(count: Int64Array, arc: Int64Array) -> Int64Array:
    """Return the arcs of one large holder in turns: a short sequence many times, then what is left over."""
    times = int(count.min()) if count.max() - count.min() <= 1 else max(1, int(count.sum()) // _TILE)
    whole, rest = np.divmod(count, times)
    parts = [np.tile(_in_turns_of_one(whole, arc), times), _in_turns_of_one(rest, arc)]
    tiled: Int64Array = np.concatenate(parts)
    return tiled


def _in_turns_of_one(count: Int64Array, arc: Int64Array) -> Int64Array:
    used = np.flatnonzero(count)
    return _in_turns_together(np.zeros(len(used), np.int64), count[used], arc[used])


def _in_turns_together(holder: IntArray, count: Int64Array, arc: Int64Array) -> Int64Array:
    """Return what `_in_turns` does, by sorting all entries."""
    if not len(holder):
        return np.empty(0, np.int64)
    new = np.flatnonzero(np.diff(holder, prepend=-1))
    ways = np.diff(new, append=len(holder))
    total, most, least = (f(count, new) for f in (np.add.reduceat, np.maximum.reduceat, np.minimum.reduceat))
    # if counts differ by at most one: in turns, those with one more first
    first = np.lexsort((-count, holder))
    alike = most - least <= 1
    place = np.repeat(np.where(alike, new, 0), total)
    rank = ranges(np.zeros(len(total), np.int64), total)
    dealt: Int64Array = arc[first][place + rank % np.repeat(ways, total)]
    if not alike.all():
        mixed = np.flatnonzero(np.repeat(~alike, ways))
        times = count[mixed]
        number = ranges(np.zeros(len(mixed), np.int64), times)
        position = ((2 * number + 1) << (_POSITION_BITS - 1)) // np.repeat(times, times)  # share of the holder
        order = stable_order(position, 1 << _POSITION_BITS)
        order = order[stable_order(np.repeat(holder[mixed], times)[order], int(holder.max()) + 1)]
        dealt[np.repeat(~alike, total)] = np.repeat(arc[mixed], times)[order]
    return dealt
