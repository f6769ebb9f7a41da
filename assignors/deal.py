"""From units on arcs to a seat for every unit: what `assignors.flow` solves for classes, handed out to their units.

Deterministic: of a class the first units stay, and the others go in ascending order to ascending seats. What must not
enter: costs; they are settled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assignors.arrays import IntArray, stable_order
from assignors.model import NOBODY, Int32Array, Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Classes and pools of the units, and which claims of a class are good.

    Attributes:
        of: [U] class of the unit.
        size: [N] units of the class.
        pool: [N] pool of the class.
        pool_kind: [L] kind of the pool's units.
        pool_price: [L] price row of the pool's units.
        claiming: [J] class of each claim that its kind allows, ascending.
        entry: [J] which entry of the claims it is.
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
    """One layer of arcs: [A] the holder (class, pool, hub, group) whose units take them, ascending, and where to."""

    holder: IntArray
    target: IntArray
    tail: IntArray
    head: IntArray
    price: IntArray | int = 0
    moves: IntArray | int = 0
    capacity: IntArray | int


def hand_out(classes: Classes, layers: tuple[Arcs, ...], flows: list[Int64Array]) -> Int32Array:
    """From units on arcs to a seat for every unit."""
    seat = _keep(classes, layers[0], flows[0])
    moving = np.flatnonzero(seat == NOBODY)
    where: IntArray = classes.pool[classes.of[moving]]
    for arcs, flow in zip(layers[2:], flows[2:5], strict=True):
        where = _deal(where, arcs.holder, arcs.target, flow)
    seat[moving] = where
    return seat


def _keep(classes: Classes, claims: Arcs, flow: Int64Array) -> Int32Array:
    """Seats of the units that keep one, NOBODY for the others; of a class the first units stay."""
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


def _deal(keys: IntArray, holder: IntArray, target: IntArray, count: Int64Array) -> Int32Array:
    """Replace every key by a target: those with a key, in ascending order, share out what its holder's arcs carry."""
    dealt = np.empty(len(keys), np.int32)
    dealt[stable_order(keys, int(holder.max(initial=-1)) + 1)] = np.repeat(target.astype(np.int32), count)
    return dealt
