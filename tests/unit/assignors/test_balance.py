"""The spread is the least unequal one, and describes exactly the loads that belong to it."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.balance import Spread, Ways, least_unequal, least_unequal_loads
from samerack.assignors.problem import BoolArray, Int64Array


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[int], BoolArray, list[int], bool]:
    """Supplies of up to 4 kinds, which of up to 4 groups may take them, members per group, whether at most one each."""
    kinds, groups = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    size = [draw(st.integers(1, 2)) for _ in range(groups)]
    wants = np.array([[draw(st.booleans()) for _ in range(groups)] for _ in range(kinds)])
    limited = draw(st.booleans())
    room = [sum(itertools.compress(size, row)) for row in wants]
    supply = [draw(st.integers(0, min(3, members) if limited else 3 * (members > 0))) for members in room]
    return supply, wants, size, limited


def spread_of(supply: list[int], wants: BoolArray, size: list[int], *, limited: bool) -> Spread:
    """The result of the code under test."""
    kind, group = np.nonzero(wants)
    members = np.array(size)
    return least_unequal(
        supply=np.array(supply),
        edge_kind=kind.astype(np.int32),
        edge_group=group.astype(np.int32),
        edge_limit=members[group] if limited else np.array(supply)[kind],
        size=members,
    )


def all_loads(supply: list[int], wants: BoolArray, size: list[int], *, limited: bool) -> set[tuple[int, ...]]:
    """Every vector of member loads, by brute force over all ways to distribute each kind."""
    group_of = np.repeat(np.arange(len(size)), size)
    vectors = {(0,) * len(group_of)}
    for units, wanted in zip(supply, wants, strict=True):
        takers = np.flatnonzero(wanted[group_of])
        choose = itertools.combinations if limited else itertools.combinations_with_replacement
        given_out = [np.bincount(np.array(some, int), minlength=len(group_of)) for some in choose(takers, units)]
        vectors = {tuple((np.array(vector) + more).tolist()) for vector in vectors for more in given_out}
    return vectors


@given(questions())
def test_loads_within_the_spread_are_the_least_unequal(question: tuple[list[int], BoolArray, list[int], bool]) -> None:
    """Among all possible loads, exactly those within floors and extras have the least sum of squares."""
    supply, wants, size, limited = question
    spread = spread_of(supply, wants, size, limited=limited)
    vectors = all_loads(supply, wants, size, limited=limited)
    minimum = min(sum(load * load for load in vector) for vector in vectors)
    best = {vector for vector in vectors if sum(load * load for load in vector) == minimum}
    assert {vector for vector in vectors if _keeps_to(spread, np.array(vector), np.array(size))} == best


def _keeps_to(spread: Spread, loads: Int64Array, size: Int64Array) -> bool:
    over = loads - np.repeat(spread.floor, size)
    band = np.repeat(spread.band, size)
    extras = np.bincount(band, weights=over, minlength=len(spread.extras))
    return bool(((over >= 0) & (over <= 1)).all() and (extras == spread.extras).all())


def test_every_group_at_another_load() -> None:
    """A chain in which every group has a different load is solved, and edges to fuller groups are not usable."""
    count = 40
    supply = np.arange(count) ** 2
    kind = np.repeat(np.arange(count), [min(2, count - index) for index in range(count)])
    group = np.concatenate([np.arange(index, min(index + 2, count)) for index in range(count)])
    spread = least_unequal(
        supply=supply,
        edge_kind=kind.astype(np.int32),
        edge_group=group.astype(np.int32),
        edge_limit=supply[kind],
        size=np.ones(count, np.int64),
    )
    loads = spread.floor.copy()
    assert loads.sum() + spread.extras.sum() == supply.sum()
    assert (np.diff(loads) >= 0).all()
    assert not spread.usable[(kind + 1 == group) & (loads[kind] + 1 < loads[group])].any()


def test_a_limit_at_the_floor_of_its_band_is_kept() -> None:
    """Two members share one kind, and one of them may have two: the band of two or three does not make that three."""
    spread = least_unequal_loads(
        Ways(
            supply=np.array([5, 0, 0]),
            tail=np.array([0, 0], np.int32),
            head=np.array([1, 2], np.int32),
            limit=np.array([5, 5]),
            group=np.array([1, 2]),
            size=np.array([1, 1]),
            most=np.array([2, 3]),
        )
    )
    assert (spread.floor + spread.extras[spread.band]).tolist() == [2, 3]
