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


def curve_of(*looks: LogExtent) -> Curve:
    """The curve after several polls."""
    curve = begin(looks[0])
    for one in looks[1:]:
        curve = extend(curve, one)
    return curve


def test_changing_record_sizes_are_told_apart() -> None:
    """Each range between two polls has its own density; an average would be wrong for both."""
    curve = curve_of(extent(0, 0), extent(100, 10_000), extent(200, 210_000))
    assert bytes_between(curve, 0, 100) == 10_000
    assert bytes_between(curve, 100, 200) == 200_000
    assert bytes_between(curve, 50, 150) == 5_000 + 100_000


def test_what_lay_there_before_has_the_average_density() -> None:
    """Offsets below the end at the first poll share its size evenly."""
    curve = begin(extent(300, 30_000, start=200))
    assert bytes_between(curve, 200, 250) == 15_000
    assert curve.known_from == 300


def test_offsets_below_the_log_start_have_no_bytes() -> None:
    """Deleted segments were not read: the curve is trimmed at the log's start."""
    curve = curve_of(extent(100, 1_000), extent(200, 2_000), extent(300, 1_500, start=150))
    assert curve.offsets[0] == 150
    assert bytes_between(curve, 0, 150) == 0
    assert bytes_between(curve, 0, 200) == pytest.approx(500)


def test_deleted_segments_do_not_hide_growth() -> None:
    """If the start has moved, the size does not show the growth, and the usual density is used."""
    curve = curve_of(extent(0, 0), extent(100, 1_000), extent(200, 2_000), extent(300, 700, start=230))
    assert bytes_between(curve, 200, 300) == pytest.approx(700)  # 30 of the 100 are deleted already
    assert extend(curve, extent(400, 1_700, start=230)).densities[-1] == 10


def test_compaction_does_not_hide_growth() -> None:
    """A log that shrinks with the same start is compacted: its growth is not used, and the curve says so."""
    curve = curve_of(extent(0, 0), extent(100, 1_000), extent(200, 2_000), extent(300, 1_200))
    assert bytes_between(curve, 200, 300) == pytest.approx(1_000)
    assert curve.hidden


def test_another_leader_has_another_size() -> None:
    """Sizes of two replicas are not compared."""
    curve = curve_of(extent(0, 0), extent(100, 1_000), extent(200, 9_000, leader=2))
    assert bytes_between(curve, 100, 200) == pytest.approx(1_000)
    assert not curve.hidden
    assert bytes_between(extend(curve, extent(300, 10_000, leader=2)), 200, 300) == 1_000


def test_records_that_stay_small_are_believed_in_the_end() -> None:
    """A density far below the usual is ignored three times, then it is used."""
    curve = curve_of(extent(0, 0), extent(100, 100_000))
    sizes = [100_100, 100_200, 100_300, 100_400]
    for number, size in enumerate(sizes):
        curve = extend(curve, extent(200 + 100 * number, size))
    assert bytes_between(curve, 400, 500) == 100


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


def test_offsets_committed_since_the_look_are_extrapolated() -> None:
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
