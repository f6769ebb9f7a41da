"""The offset -> bytes curve: exact at polls, without polls that cannot be right, never falling."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.curve import Curve, LogExtent, begin, bytes_between, extend

_STRETCH = Struct("=If")
"""Offsets and bytes of a stretch."""


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
    assert len(curve.stretches) <= 3 * _STRETCH.size


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
    stretches = list(_STRETCH.iter_unpack(curve.stretches))
    assert sum(records for records, _ in stretches) == end - start
    assert len(stretches) <= 144
    assert all(records > 0 and added >= 0 for records, added in stretches)


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


_LOGS = 4
_KINDS = ("steady", "drift", "jumps", "bursts")


def _records(kind: str, polls: int, dice: Random) -> tuple[list[int], list[int]]:
    """The bytes of a log up to each record, and its end at each poll: sizes vary from record to record, and more."""
    upto, ends, usual = [0], [0], 1000.0
    for _ in range(polls):
        if kind == "drift":
            usual *= dice.uniform(0.93, 1.075)
        elif kind == "bursts":
            usual = dice.choice((100, 5000))
        elif kind == "jumps" and dice.random() < 0.1:
            usual = dice.choice((100, 500, 2000, 20_000))
        for _ in range(dice.randint(20, 200)):
            upto.append(upto[-1] + max(20, round(dice.lognormvariate(0, 1) * usual)))
        ends.append(len(upto) - 1)
    return upto, ends


def _read(kind: str, lag: int, *, seed: int) -> tuple[float, float, Curve]:
    """Read 400 polls of a log so many polls behind it; return what all reads are off by, their sum, and the curve."""
    dice = Random(seed)  # noqa: S311 - reproducible logs, not secrets
    upto, ends = _records(kind, 400, dice)
    curve, read, error, total = begin(extent(0, 0)), 0, 0.0, 0.0
    for number, end in enumerate(ends[1:], 1):
        behind = max(0, number - lag)
        until = max(read, dice.randint(ends[max(0, behind - 1)], ends[behind]))
        curve = extend(curve, extent(end, upto[end]), needed_from=read)
        true = upto[until] - upto[read]
        error += abs(bytes_between(curve, read, until) - true)
        total, read = total + true, until
    return error, total, curve


@pytest.mark.parametrize(
    ("kind", "lag", "before"),
    [
        ("steady", 0, 0.0546),
        ("steady", 10, 0.0528),
        ("steady", 60, 0.0504),
        ("steady", 100, 0.0669),
        ("steady", 300, 0.0984),
        ("drift", 0, 0.0548),
        ("drift", 10, 0.0546),
        ("drift", 60, 0.0535),
        ("drift", 100, 0.0639),
        ("drift", 300, 0.1463),
        ("jumps", 0, 0.2562),
        ("jumps", 10, 0.2579),
        ("jumps", 60, 0.2607),
        ("jumps", 100, 0.3057),
        ("jumps", 300, 1.0387),
        ("bursts", 0, 0.2369),
        ("bursts", 10, 0.2317),
        ("bursts", 60, 0.2260),
        ("bursts", 100, 0.3734),
        ("bursts", 300, 0.7083),
    ],
)
def test_stretches_that_somebody_has_to_read_are_as_fine_as_128_points(kind: str, lag: int, before: float) -> None:
    """So many polls behind, reads are off by no more of what is read than with the newest 128 polls kept alike.

    `before` is what that was, with the same logs and reads.
    """
    found = [_read(kind, lag, seed=seed) for seed in range(_LOGS)]
    assert sum(error for error, *_ in found) / sum(total for _, total, _ in found) <= before


@pytest.mark.parametrize("kind", _KINDS)
def test_a_log_that_all_keep_up_with_takes_little(kind: str) -> None:
    """A few dozen stretches of eight bytes, however much the records vary: it was 128 points of 64 bytes."""
    *_, curve = _read(kind, 0, seed=1)
    assert len(curve.stretches) <= 8 * 24
    assert len(curve.densities) <= 36


def test_more_offsets_than_32_bits_hold() -> None:
    """They are several stretches."""
    curve = curve_of(extent(9_000_000_000, 18_000_000_000, start=10), extent(18_000_000_000, 45_000_000_000, start=10))
    assert bytes_between(curve, 9_000_000_000, 18_000_000_000) == pytest.approx(27e9)
    assert bytes_between(curve, 10, 9_000_000_000) == pytest.approx(18e9)
