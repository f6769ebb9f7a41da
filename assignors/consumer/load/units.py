"""What a plan by load places, and how plans are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samerack.assignors.arrays import first_of_each
from samerack.assignors.problem import NOBODY, BoolArray, FloatArray, Int32Array, Int64Array

SLACK: Final = 1e-9
"""Relative error of sums of loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadUnits:
    """U units to place on M members.

    Attributes:
        load: [U] load, not negative.
        count: [U] partitions of the unit.
        kind: [U] row of `may_have`.
        may_have: [K, M] true where the member may have units of the kind.
        price: [U] row of `prices`.
        prices: [C, G] cost of the unit in each of the G columns.
        column: [M] column of the member.
        group: [M] number of the member's column and subscription; members of a group are alike but for what follows.
        home: [U] current owner, NOBODY if it has none.
        kept: [U] moves saved if the unit stays there.
        capacity: [M] relative capacity, positive.
        most: [M] partitions that the member may have at most.
        wants: [M] whether it should not be without any.
    """

    load: FloatArray
    count: Int64Array
    kind: Int32Array
    may_have: BoolArray
    price: Int32Array
    prices: Int64Array
    column: Int32Array
    group: Int32Array
    home: Int32Array
    kept: Int64Array
    capacity: FloatArray
    most: Int64Array
    wants: BoolArray

    @property
    def column_of_group(self) -> Int32Array:
        """The column of each group of members."""
        return self.column[first_of_each(self.group, int(self.group.max()) + 1)]


def greatest(units: LoadUnits, member: Int32Array) -> float:
    """Return the greatest load of a member relative to its capacity."""
    load = np.bincount(member, weights=units.load, minlength=len(units.capacity))
    return float((load / units.capacity).max(initial=0.0))


def rank(units: LoadUnits, member: Int32Array, limit: float) -> tuple[int, float, int, int, int, float]:
    """Return what is least for the best plan, in this order.

    Partitions beyond limits, load beyond the limit, members without any, cross-rack weight, moves, unevenness.
    """
    load = np.bincount(member, weights=units.load, minlength=len(units.capacity))
    count = np.bincount(member, weights=units.count, minlength=len(units.capacity))
    highest = float((load / units.capacity).max(initial=0.0))
    moved = (units.home != NOBODY) & (units.home != member)
    return (
        int(np.maximum(count - units.most, 0).sum()),
        highest if highest > limit * (1 + SLACK) else 0.0,
        int(np.count_nonzero(units.wants & (count == 0))),
        int(units.prices[units.price, units.column[member]].sum()),
        int(units.kept[moved].sum()),
        float((load * load / units.capacity).sum()),
    )


def without_racks(units: LoadUnits) -> LoadUnits:
    """Return the units without prices and owners; members that may have the same kinds are alike."""
    _, group = np.unique(units.may_have, axis=1, return_inverse=True)
    return replace(
        units,
        price=np.zeros_like(units.price),
        prices=np.zeros((1, 1), np.int64),
        column=np.zeros_like(units.column),
        group=group.ravel().astype(np.int32),
        home=np.full_like(units.home, NOBODY),
    )
