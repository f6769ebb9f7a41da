"""The engine's collapsed network has the same optimum as the graph with every unit and every seat."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.arrays import dense_rank, first_of_each, ranges, stable_order
from samerack.assignors.flow import SeatClaims, Seats, Units, place
from samerack.assignors.problem import AssignmentError, Int32Array
from tests.unit.assignors import groups

CLIENTS = 4


def _picks(draw: st.DrawFn, count: int, top: int) -> Int32Array:
    return np.array([draw(st.integers(0, top)) for _ in range(count)], np.int32)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Units, Seats]:
    """Up to 5 units of 2 kinds with up to 3 claims each, 4 seats in 3 groups of 2 columns; kind 1 lacks one group."""
    count = draw(st.integers(1, 5))
    claims = st.dictionaries(st.integers(0, CLIENTS - 1), st.integers(1, 3), max_size=3)
    rows = [[], *(list(draw(claims).items()) for _ in range(3))]
    entries = [entry for row in rows for entry in row]
    units = Units(
        kind=_picks(draw, count, 1),
        kinds=2,
        price=_picks(draw, count, 1),
        prices=np.array([[0, 2], [1, 0]]),
        claim=_picks(draw, count, len(rows) - 1),
        claims=SeatClaims(
            start=np.cumsum([0] + [len(row) for row in rows]),
            seat=np.array([seat for seat, _ in entries], np.int32),
            kept=np.array([kept for _, kept in entries], np.int64),
        ),
    )
    # the first two groups take every kind; one node that takes all units counts them
    seats = Seats(
        group=np.array([2, 0, 1, 0], np.int32),
        column=np.array([0, 1, 1], np.int32),
        edge_kind=np.array([0, 0, 0, 1, 1], np.int32),
        edge_group=np.array([0, 1, 2, 1, 0], np.int32),
        demand=np.array([0] * CLIENTS + [count]),
        tail=np.arange(CLIENTS, dtype=np.int32),
        head=np.full(CLIENTS, CLIENTS, np.int32),
        capacity=np.full(CLIENTS, 2, np.int64),
    )
    return units, seats


def cost(units: Units, seats: Seats, plan: tuple[int, ...]) -> tuple[int, int] | None:
    """Price and spared moves (negative) of a plan; None if a seat is not allowed or too full."""
    if max(np.bincount(np.array(plan))) > 2:
        return None
    price = spared = 0
    allowed = set(zip(seats.edge_kind.tolist(), seats.edge_group.tolist(), strict=True))
    for unit, seat in enumerate(plan):
        group = seats.group[seat]
        if (int(units.kind[unit]), int(group)) not in allowed:
            return None
        price += int(units.prices[units.price[unit], seats.column[group]])
        row = units.claim[unit]
        entries = range(units.claims.start[row], units.claims.start[row + 1])
        spared += sum(int(units.claims.kept[entry]) for entry in entries if units.claims.seat[entry] == seat)
    return price, -spared


@pytest.mark.parametrize("portable", [False, True])
@given(question=questions())
def test_no_placement_is_better(question: tuple[Units, Seats], *, portable: bool) -> None:
    """Brute force over all placements finds none with a lower price, nor one of equal price with more spared moves."""
    units, seats = question
    plans = itertools.product(range(CLIENTS), repeat=len(units.kind))
    costs = [found for plan in plans if (found := cost(units, seats, plan)) is not None]
    with groups.solver(portable=portable):
        if not costs:
            with pytest.raises(AssignmentError, match="no flow"):
                place(units, seats)
            return
        assert cost(units, seats, tuple(place(units, seats).tolist())) == min(costs)


@given(st.lists(st.integers(0, 1 << 40), max_size=50), st.sampled_from([1, 3, 1 << 16, 1 << 20, (1 << 40) + 1]))
def test_counting_agrees_with_sorting(values: list[int], bound: int) -> None:
    """Ranks and orders by counting equal those of a stable sort, for keys of any width."""
    keys = np.array([value % bound for value in values], np.int64)
    assert stable_order(keys, bound).tolist() == np.argsort(keys, kind="stable").tolist()
    ranks, distinct = dense_rank(keys, bound)
    assert distinct[ranks].tolist() == keys.tolist()
    assert distinct.tolist() == sorted(set(keys.tolist()))
    firsts = first_of_each(ranks, len(distinct))
    assert keys[firsts].tolist() == distinct.tolist()
    assert all(keys[first] not in keys[:first] for first in firsts)


def test_ranges_are_joined() -> None:
    """Starts and lengths become the positions between; empty ranges add none."""
    assert ranges(np.array([5, 0, 2]), np.array([2, 0, 3])).tolist() == [5, 6, 2, 3, 4]
