"""The offset -> bytes curve: exact at polls, without polls that cannot be right, never falling."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.curve import Curve, LogExtent, begin, bytes_between, extend


def extent(end: int, size: int, *, start: int = 0, leader: int = 1) -> LogExtent:
    """A poll of the log of one leader."""
    return LogExtent(start=start, end=end, size_bytes=size, leader=leader)


def curve_of(*polls: LogExtent) -> Curve:
    """The curve after several polls."""
    curve = begin(polls[0])
    for one in polls[1:]:
        curve = extend(curve, one)
    return curve


TIERED = LogExtent(start=28_000_000, end=29_000_000, size_bytes=1_000_000_000, leader=1, remote_start=1_000_000)
"""28 million records in remote storage of which a million was deleted, and a million on the leader's disk."""
BEFORE = (extent(0, 0), extent(100, 1_000))
SMALL = [extent(200 + 100 * number, 100_100 + 100 * number) for number in range(4)]


@pytest.mark.parametrize(
    ("polls", "first", "end", "found"),
    [
        ((extent(0, 0), extent(100, 10_000), extent(200, 210_000)), 50, 150, 5_000 + 100_000),
        ((extent(300, 30_000, start=200),), 200, 250, 15_000),
        ((extent(100, 1_000), extent(200, 2_000), extent(300, 1_500, start=150)), 0, 150, 0),
        ((extent(100, 1_000), extent(200, 2_000), extent(300, 1_500, start=150)), 0, 200, 500),
        ((*BEFORE, extent(200, 2_000), extent(300, 700, start=230)), 200, 300, 700),
        ((*BEFORE, extent(200, 2_000), extent(300, 1_200)), 200, 300, 1_000),
        ((*BEFORE, extent(200, 9_000, leader=2)), 100, 200, 1_000),
        ((*BEFORE, extent(200, 9_000, leader=2), extent(300, 10_000, leader=2)), 200, 300, 1_000),
        ((extent(0, 0), extent(100, 100_000), *SMALL), 400, 500, 100),
        (BEFORE, 100, 110, 100),
        ((TIERED,), 28_000_000, 28_000_500, 500_000),
        ((TIERED,), 5_000_000, 5_000_500, 500_000),
        ((TIERED,), 999_000, 1_000_500, 500_000),
    ],
    ids=[
        "each range has its own density",
        "what lay there before has the average one",
        "deleted segments were not read",
        "the curve is trimmed at the log's start",
        "deleted segments do not hide growth: 30 of the 100 are deleted already",
        "compaction does not hide growth",
        "sizes of two replicas are not compared",
        "those of the new leader are",
        "records that stay small are believed after three polls",
        "offsets committed since the poll are extrapolated",
        "with tiered storage the size is that of the leader's disk: 35.7 bytes a record were shown, and not 1,000",
        "what is in remote storage only is like the rest",
        "what is deleted there was not read",
    ],
)
def test_bytes_of_a_range(polls: tuple[LogExtent, ...], first: int, end: int, found: float) -> None:
    """What polls show counts as shown; what they cannot show has the usual density."""
    assert bytes_between(curve_of(*polls), first, end) == pytest.approx(found)


@pytest.mark.parametrize(
    ("now", "hidden"), [(extent(300, 1_200), True), (extent(300, 9_000, leader=2), False), (extent(300, 3_000), False)]
)
def test_a_log_that_shrinks_with_the_same_start_is_compacted(now: LogExtent, *, hidden: bool) -> None:
    """The curve says so, since its growth is not used."""
    assert curve_of(*BEFORE, extent(200, 2_000), now).hidden is hidden


def test_a_topic_made_anew_begins_anew() -> None:
    """An end offset that went back belongs to another log."""
    assert extend(curve_of(extent(0, 0), extent(100, 1_000)), extent(10, 50)) == begin(extent(10, 50))


def test_an_idle_partition_costs_nothing() -> None:
    """An equal poll gives the same object, and steady growth keeps few points."""
    curve = curve_of(extent(0, 0), extent(100, 1_000))
    assert extend(curve, extent(100, 1_000)) is curve
    for number in range(2, 500):
        curve = extend(curve, extent(100 * number, 1_000 * number))
    assert len(curve.offsets) < 5


def test_offsets_committed_since_the_poll_are_extrapolated() -> None:
    """A commit beyond the last poll counts by the usual density."""
    assert bytes_between(curve_of(extent(0, 0), extent(100, 1_000)), 100, 110) == pytest.approx(100)


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(-5_000, 100_000), st.integers(0, 300)), max_size=300))
def test_curves_never_fall_and_stay_small(steps: list[tuple[int, int, int]]) -> None:
    """For any polls, bytes never fall with offsets, and memory is bounded."""
    start = end = size = 0
    curve = begin(extent(0, 0))
    for records, growth, removed in steps:
        end += records
        size = max(0, size + growth)
        start = min(end, start + removed)
        curve = extend(curve, extent(end, size, start=start))
    assert len(curve.offsets) <= 130
    assert list(curve.offsets) == sorted(set(curve.offsets))
    assert all(a <= b + 1e-6 for a, b in pairwise(curve.cumulative))


@given(
    st.lists(st.tuples(st.integers(1, 1_000), st.integers(20, 5_000)), min_size=1, max_size=100),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_bytes_add_up(steps: list[tuple[int, int]], cuts: list[float]) -> None:
    """The parts of a range that commits cut add up to the whole."""
    end = size = 0
    curve = begin(extent(0, 0))
    for records, density in steps:
        end += records
        size += records * density
        curve = extend(curve, extent(end, size))
    at = sorted({0, end, *(round(cut * end) for cut in cuts)})
    parts = sum(bytes_between(curve, first, until) for first, until in pairwise(at))
    assert parts == pytest.approx(bytes_between(curve, 0, end))
