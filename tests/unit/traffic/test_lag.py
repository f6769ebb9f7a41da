"""The lag of groups, in which no partition hides what is known, and the timelines that its seconds come from.

Members that fall behind are distinguished from slow committers and from those that catch up, at commits alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.lag import (
    Paces,
    Timeline,
    Timelines,
    age_of,
    extend_timeline,
    lag_by_key,
    lag_of_all,
    lag_records,
    lag_seconds,
    oldest_by_key,
    oldest_of_all,
)
from samerack.traffic.snapshot import LowerBound, Pace, PartitionTraffic


@pytest.mark.parametrize(
    ("start", "end", "committed", "lag"),
    [
        (0, 10, 4, 6),
        (0, 10, 10, 0),
        (0, 10, 12, 0),  # the commit came after the end was asked for
        (5, 10, 2, 8),  # retention deleted records: as Kafka's tools have it
        (0, 10, None, None),
        (7, 7, None, 0),  # nothing is there to be read
    ],
)
def test_a_partition(start: int, end: int, committed: int | None, lag: int | None) -> None:
    """The high watermark less the committed offset; without a commit it is known of an empty partition only."""
    assert lag_records(start, end, committed) == lag


@pytest.mark.parametrize(
    ("by_key", "of_all", "fold"), [(lag_by_key, lag_of_all, sum), (oldest_by_key, oldest_of_all, max)]
)
@given(partitions=st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 100))))
def test_what_is_known_of_a_topic_is_a_lower_bound(
    partitions: list[tuple[str, int | None]],
    by_key: Callable[[Any], Mapping[str, LowerBound[int]]],
    of_all: Callable[[Any], LowerBound[int]],
    fold: Callable[[Any], int],
) -> None:
    """Its lag is the sum, and its age the largest, of what is known; beside it is the number of what is not.

    The same of a group's topics.
    """
    found = by_key(partitions)
    assert found.keys() == {topic for topic, _ in partitions}
    for topic, bound in found.items():
        own = [one for key, one in partitions if key == topic]
        known = [one for one in own if one is not None]
        assert bound == of_all(own) == LowerBound(value=fold(known) if known else None, unknown=own.count(None))
    assert of_all(found.values()) == of_all([one for _, one in partitions])
    assert of_all([]) == LowerBound()


def test_one_unknown_partition_hides_no_other() -> None:
    """Eleven partitions lag a million records each, and one of twelve has no commit yet."""
    lags = [*(lag_records(0, 1_000_000, 0) for _ in range(11)), lag_records(0, 1_000_000, None)]
    assert lag_of_all(lags) == LowerBound(value=11_000_000, unknown=1)


@pytest.mark.parametrize(
    ("records", "committed", "age"),
    [
        (0, 20, 0.0),
        (0, None, 0.0),  # an empty partition
        (10, 10, 5.0),
        (15, 5, None),  # written before the first poll
        (None, None, None),
        (3, None, None),
    ],
)
def test_the_age_of_a_partition(records: int | None, committed: int | None, age: float | None) -> None:
    """The oldest record that is not read is as old as polls show; 0 without lag, and unknown before the first poll."""
    timeline = extend_timeline(extend_timeline(None, at=100, end=10), at=105, end=20)
    assert lag_seconds(records, committed, timeline, now=105) == age
    assert lag_seconds(records, committed, None, now=105) == (0.0 if records == 0 else None)


POLL_SECONDS = 5.0
DAY = 86_400.0
ONE: Partition = ("orders", 0)
OTHER: Partition = ("orders", 1)

polls = st.lists(
    st.tuples(st.floats(0.01, 30, allow_nan=False), st.integers(0, 50) | st.integers(0, 10**7)),
    min_size=1,
    max_size=400,
)
"""Seconds and records between two polls."""


def timeline_of(polled: Iterable[tuple[float, int]]) -> Timeline:
    """The timeline after polls at these times with these ends."""
    timeline = None
    for at, end in polled:
        timeline = extend_timeline(timeline, at=at, end=end)
    assert timeline is not None
    return timeline


def summed(steps: Sequence[tuple[float, int]], *, at: float = 1000.0, end: int = 7) -> list[tuple[float, int]]:
    """The polls that follow each other like this."""
    polled = [(at, end)]
    for seconds, records in steps:
        at, end = at + seconds, end + records
        polled.append((at, end))
    return polled


@given(polls)
def test_an_age_is_right_within_its_bounds(steps: list[tuple[float, int]]) -> None:
    """A record is as old as one of the two polls around it says, within a fifth of its age where this is more."""
    polled = summed(steps)
    timeline, now = timeline_of(polled), polled[-1][0]
    for (before, first), (after, end) in pairwise(polled):
        for offset in {first, (first + end) // 2, end - 1} if end > first else ():
            age = age_of(timeline, offset, now=now)
            if age is not None:  # what is dropped with age is unknown, and the newest hours are never dropped
                slack = (now - after) / 5 + 0.02
                assert now - after - slack <= age <= now - before + slack
            else:
                assert len(steps) > 96


@given(polls, st.integers(1, 1000))
def test_it_is_unknown_what_came_before_and_never_negative(steps: list[tuple[float, int]], earlier: int) -> None:
    """The first poll shows no age of what lay there; what is not written yet has none; ages fall with the offset."""
    polled = summed(steps)
    timeline, (now, end) = timeline_of(polled), polled[-1]
    assert age_of(timeline, polled[0][1] - earlier, now=now) is None
    assert age_of(timeline, end, now=now) is None
    ages = [age_of(timeline, offset, now=now) for offset in sorted({one for _, one in polled[:-1] if one < end})]
    known = [age for age in ages if age is not None]
    assert ages[len(ages) - len(known) :] == known
    assert known == sorted(known, reverse=True)
    assert all(age >= 0 for age in known)


@pytest.mark.parametrize("rate", [0.05, 3, 70_000])
def test_constant_production_is_exact_within_one_poll_at_any_age(rate: float) -> None:
    """After a day of polls the age of each record is known to within the time between two polls, in 112 steps."""
    count = round(DAY / POLL_SECONDS)
    timeline = timeline_of((n * POLL_SECONDS, int(rate * n * POLL_SECONDS)) for n in range(count + 1))
    for age in (1, 7, 100, 3_000, 50_000, DAY - 60):
        offset = int(rate * (DAY - age))
        found = age_of(timeline, offset, now=DAY)
        written = (offset + 1) / rate
        assert found == pytest.approx(DAY - written, abs=POLL_SECONDS + 1 / rate)
    assert len(timeline.steps) <= 112 * 8


def test_two_weeks_are_kept_of_a_busy_partition() -> None:
    """Thinning keeps the beginning for two weeks; later the oldest points go, and their records' age with them."""
    timeline = timeline_of((n * 60.0, n * n % 977 + 1000 * n) for n in range(14 * 1440))
    assert age_of(timeline, 10, now=14 * DAY) == pytest.approx(14 * DAY, rel=0.2)


def test_a_log_that_went_back_starts_again() -> None:
    """A shorter log is another log: nothing of the former one is used."""
    timeline = timeline_of([(0, 0), (5, 100), (10, 40), (15, 60)])
    assert age_of(timeline, 30, now=15) is None
    assert age_of(timeline, 40, now=15) == 5


def test_growth_beyond_32_bits_starts_again() -> None:
    """A log that jumps by billions of records in one poll is no log that grew."""
    timeline = timeline_of([(0, 0), (5, 2**40), (10, 2**40 + 1)])
    assert age_of(timeline, 2**39, now=10) is None
    assert age_of(timeline, 2**40, now=10) == 5


def test_a_pause_in_polling_is_no_guess() -> None:
    """What came in a pause of ten minutes has no age until that is a fifth of it; what came before and after has."""
    timeline = timeline_of([(0, 0), (5, 10), (605, 20), (610, 30)])
    assert [age_of(timeline, offset, now=610) for offset in (0, 15, 20)] == [610, None, 5]
    assert age_of(timeline, 15, now=4_000) == 4_000 - 305


def test_an_idle_partition_keeps_one_step() -> None:
    """A record after hours without any is as old as the last poll without it."""
    timeline = timeline_of([*((n * 5.0, 8) for n in range(2000)), (10_000, 9)])
    assert len(timeline.steps) == 2 * 8
    assert age_of(timeline, 8, now=10_000) == 5
    assert extend_timeline(timeline, at=10_000, end=9) is timeline


@given(st.lists(st.tuples(st.sampled_from([(0, None), (0, 0), (3, 0), (None, 2), (1, 1)])), max_size=60))
def test_resting_partitions_are_as_if_each_poll_was_added(growths: list[tuple[tuple[int | None, int | None]]]) -> None:
    """`Timelines` adds what it needs of polls without growth: ages are those of all polls; None is a missing answer.

    Steps are thinned each time that eight have come, which is not at the same poll: then within their bounds.
    """
    close = 0.0 if len(growths) < 8 else 0.2
    timelines, eager, ends, at = Timelines(), dict[Partition, Timeline](), {ONE: 0, OTHER: 0}, 0.0
    for (growth,) in growths:
        at += POLL_SECONDS
        logs = {}
        for partition, records in zip((ONE, OTHER), growth, strict=True):
            if records is not None:
                ends[partition] += records
                logs[partition] = Offsets(start=0, end=ends[partition])
                eager[partition] = extend_timeline(eager.get(partition), at=at, end=ends[partition])
        timelines.polled(logs, now=at)
    for partition, timeline in eager.items():
        for offset in range(ends[partition] + 1):
            lazy = timelines.known[partition]
            age = age_of(timeline, offset, now=at)
            assert age_of(lazy, offset, now=at) == (None if age is None else pytest.approx(age, rel=close, abs=0.0))


def test_partitions_that_are_polled_no_longer_are_forgotten_late() -> None:
    """A group that is not seen for some minutes keeps its timelines; after twenty they are gone."""
    timelines, logs = Timelines(), {ONE: Offsets(start=0, end=1)}
    timelines.polled(logs, now=0)
    timelines.polled({ONE: Offsets(start=0, end=5)}, now=5)
    for now in range(10, 500, 5):
        timelines.polled({}, now=now)
    timelines.polled(logs | {ONE: Offsets(start=0, end=5)}, now=700)
    assert age_of(timelines.known[ONE], 3, now=700) == pytest.approx(697.5)
    for now in range(705, 2100, 5):
        timelines.polled({}, now=now)
    timelines.polled({ONE: Offsets(start=0, end=5)}, now=2100)
    assert age_of(timelines.known[ONE], 3, now=2100) is None


_RATE = 1000
"""Records written per second, of one byte."""
POLL = 5.0


def _watched(*, speed: float, commit_every: float, seconds: float, behind: float = 0.0) -> Iterator[Pace | None]:
    """Yield the pace of a member of one partition at each poll; it reads at most `speed` times what is written."""
    paces, timeline = Paces(), None
    position, committed, due = -behind * _RATE, -behind * _RATE, commit_every
    now = 0.0
    for past in range(int(behind / POLL), 0, -1):
        timeline = extend_timeline(timeline, at=-past * POLL, end=round(-past * POLL * _RATE) + 10**7)
    while now < seconds:
        now += POLL
        position = min(now * _RATE, position + speed * _RATE * POLL)
        if now >= due:
            committed, due = position, due + commit_every
        end, offset = round(now * _RATE) + 10**7, round(committed) + 10**7
        timeline = extend_timeline(timeline, at=now, end=end)
        age = age_of(timeline, offset, now=now) if offset < end else 0.0
        one = PartitionTraffic(
            partition=("t", 0),
            member="m",
            serving_rack=None,
            bytes_per_second=None,
            written_per_second=float(_RATE),
            lag_records=end - offset,
            lag_seconds=age,
            committed=offset,
        )
        yield paces.measured("g", [one], now=now, poll_seconds=POLL).get("m")


@pytest.mark.parametrize("commit_every", [5.0, 30.0, 60.0, 600.0])
def test_who_reads_too_slowly_grows_and_shows_its_pace(commit_every: float) -> None:
    """Its lag after commits grows, and what it reads is its capacity."""
    *_, last = _watched(speed=0.6, commit_every=commit_every, seconds=max(600.0, 6 * commit_every))
    assert last is not None
    assert last.grows
    assert last.share == pytest.approx(0.6, abs=0.05)
    assert last.lag_seconds > 100


@pytest.mark.parametrize("commit_every", [5.0, 60.0, 600.0, 3600.0])
def test_who_commits_rarely_but_keeps_up_is_not_behind(commit_every: float) -> None:
    """The saw-tooth between two commits is no lag."""
    assert not any(_watched(speed=3.0, commit_every=commit_every, seconds=3 * commit_every + 600.0))


def test_who_catches_up_shows_its_pace_and_does_not_grow() -> None:
    """Catching up after a stop is not overload."""
    seen = list(_watched(speed=1.5, commit_every=5.0, seconds=900.0, behind=1200.0))
    assert not any(pace.grows for pace in seen if pace is not None)
    last = seen[-1]
    assert last is not None
    assert last.share == pytest.approx(1.5, abs=0.05)


def test_who_keeps_an_even_distance_does_not_grow() -> None:
    """A constant lag, however large, is no growth."""
    seen = [pace for pace in _watched(speed=1.0, commit_every=5.0, seconds=900.0, behind=300.0) if pace is not None]
    assert seen
    assert not any(pace.grows for pace in seen)
