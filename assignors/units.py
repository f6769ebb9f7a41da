"""The input of a placement: units, the seats for them, and the claims that units have to seats (`assignors.flow`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samerack.assignors.arrays import IntArray, combine, first_of_each
from samerack.assignors.problem import Int32Array, Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatClaims:
    """Sets of seats that a unit may keep, as rows of varying length; row 0 has none.

    Attributes:
        start: [Q + 1] index of each row's first entry, then the number of entries.
        seat: [N] a seat that the unit has a claim to, once per row.
        kept: [N] moves saved if the unit is placed there, positive.
    """

    start: Int64Array
    seat: Int32Array
    kept: Int64Array


def one_claim_each(seats: int) -> SeatClaims:
    """Return claims in which row z + 1 claims seat z, and row 0 none."""
    return SeatClaims(
        start=np.concatenate([[0], np.arange(seats + 1)]),
        seat=np.arange(seats, dtype=np.int32),
        kept=np.ones(seats, np.int64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """The U units to place, each with one kind (which groups may have it), price row and claim row.

    Attributes:
        kind: [U] 0..K-1.
        kinds: K.
        price: [U] row of `prices`.
        prices: [C, G] cost of the unit in each of the G columns (racks, for example), not negative.
        claim: [U] row of `claims`.
        claims: seats that units may keep.
        move_price: cost of a move in the currency of `prices`, not negative.
    """

    kind: Int32Array
    kinds: int
    price: Int32Array
    prices: Int64Array
    claim: Int32Array
    claims: SeatClaims
    move_price: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """The Z seats, in S groups of one column each, and the network behind them, in which every unit ends.

    Attributes:
        group: [Z] group of the seat.
        column: [S] column of the group.
        edge_kind: [E] a kind that a group may have.
        edge_group: [E] the group.
        demand: [Z + X] units that leave the network at the node; the X nodes are the caller's own.
        tail: [A] node where the caller's arc starts, among those Z + X nodes.
        head: [A] node where it ends.
        capacity: [A] units that it may carry.
        toll: [A] cost of each unit there, at a level before moves, not negative.
        cost: [A] cost of each unit there, at a level after moves. A unit takes at most one arc with toll, and at most
            one with cost.
    """

    group: Int32Array
    column: Int32Array
    edge_kind: Int32Array
    edge_group: Int32Array
    demand: Int64Array
    tail: Int32Array
    head: Int32Array
    capacity: Int64Array
    toll: Int64Array | int = 0
    cost: Int64Array | int = 0


def seats_by_kind(  # noqa: PLR0913 - what seats are made of
    kind: IntArray,
    column: Int32Array,
    *,
    demand: Int64Array,
    tail: Int32Array,
    head: Int32Array,
    capacity: Int64Array,
) -> Seats:
    """Return seats of one kind and one column each, [Z]; those that are alike in both are a group."""
    group, groups = combine(kind, int(kind.max()) + 1, column, int(column.max()) + 1)
    some = first_of_each(group, groups)
    return Seats(
        group=group,
        column=column[some],
        edge_kind=kind[some].astype(np.int32),
        edge_group=np.arange(groups, dtype=np.int32),
        demand=demand,
        tail=tail,
        head=head,
        capacity=capacity,
    )
