"""Members that fall behind are distinguished from slow committers and from those that catch up, at commits alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samerack.traffic.lag import age_of, extend_timeline
from samerack.traffic.pace import Paces
from samerack.traffic.snapshot import Pace, PartitionTraffic

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
