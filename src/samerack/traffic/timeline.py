"""Remembers when each partition's log ended where: a timeline of polls, from which the age of an offset is computed.

Each poll shows where a log ends. A record was written between the last poll whose end lies at or below its offset and
the next one; between these two points the time is interpolated. The older the points, the fewer are kept, so that a day
of polls fits in about a hundred points. Pure values and functions, and `Timelines`, which holds those of all
partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from samerack.traffic.collect import Offsets, Partition

_TICKS: Final = 100
"""Steps are in hundredths of a second, of times that are rounded first: no error adds up, and 32 bits hold a year."""
_STEP: Final = Struct("=II")
_LARGEST: Final = 2**32 - 1
_THINNED_EVERY: Final = 8
"""Steps are thinned each time that so many have come: of an hour of polls every five seconds 45 remain."""
_KEPT_STEPS: Final = 96
"""So many at most remain then: two weeks of polls every five seconds."""
_SHARE_OF_AGE: Final = 5
"""Points closer to each other than this part of their age are thinned."""
_LONGEST_PAUSE: Final = 120 * _TICKS
"""What was written in a longer pause between two polls has no known age, until the pause is a small part of it."""
_FORGET_SECONDS: Final = 600.0
"""A partition that is not polled for so long is forgotten; a coordinator that moves hides groups for seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Where the log of one partition ended, by time.

    Attributes:
        at: The time of the newest point, in monotonic seconds; one object for all partitions of a poll.
        end: The end of the log then.
        steps: How points follow each other, the oldest first: hundredths of a second and records, 32 bits each. A
            partition without growth has none or one.
    """

    at: float
    end: int
    steps: bytes = b""


def extend(timeline: Timeline | None, *, at: float, end: int) -> Timeline:
    """Return the timeline (None before the first poll) after one more poll, at monotonic seconds not before the last.

    A log whose end went back is another log (deleted and created again, or truncated): its timeline starts again.
    """
    if timeline is None:
        return Timeline(at=at, end=end)
    passed, records, steps = _ticks(at) - _ticks(timeline.at), end - timeline.end, timeline.steps
    if not records and not passed:
        return timeline
    if not records and steps:
        before, growth = _STEP.unpack_from(steps, len(steps) - _STEP.size)
        if not growth:
            passed, steps = passed + before, steps[: -_STEP.size]
    if not (0 <= records <= _LARGEST and 0 <= passed <= _LARGEST):
        return Timeline(at=at, end=end)
    steps += _STEP.pack(passed, records)
    many = len(steps) > len(timeline.steps) and len(steps) % (_THINNED_EVERY * _STEP.size) == 0
    return Timeline(at=at, end=end, steps=_thinned(steps) if many else steps)


def age_of(timeline: Timeline, offset: int, *, now: float) -> float | None:
    """Return the age in seconds of the record at an offset: how long ago the end of the log passed it.

    It is off by at most the time between the two points around it: that between two polls, and a fifth of the age
    where this is more. Where production is constant it is exact within the time between two polls, at any age. `now` is
    monotonic, not before the last poll.

    Return None where the record was written before the oldest point, where the log does not have it yet, and where it
    was written in a pause between two polls that was longer than two minutes and than a fifth of the age.
    """
    end = timeline.end
    if offset >= end:
        return None
    age = _ticks(now) - _ticks(timeline.at)
    for passed, records in _newest_first(timeline.steps):
        if offset >= end - records:
            if passed > max(_LONGEST_PAUSE, age / _SHARE_OF_AGE):
                return None
            return round((age + passed * (end - offset) / records) / _TICKS, 2)
        age, end = age + passed, end - records
    return None


def _ticks(seconds: float) -> int:
    return round(seconds * _TICKS)


def _newest_first(steps: bytes) -> Iterator[tuple[int, int]]:
    """Yield the steps; most readers are near the end of their logs, and need one or two."""
    for place in range(len(steps) - _STEP.size, -1, -_STEP.size):
        yield _STEP.unpack_from(steps, place)


def _thinned(steps: bytes) -> bytes:
    """Merge neighbouring steps that together are no longer than a part of their age."""
    (passed, records), *older = _newest_first(steps)
    kept: list[tuple[int, int]] = []
    age = 0
    for more, further in older:
        if passed + more <= age / _SHARE_OF_AGE and records + further <= _LARGEST:
            passed, records = passed + more, records + further
        else:
            kept.append((passed, records))
            age += passed
            passed, records = more, further
    kept.append((passed, records))
    return b"".join(_STEP.pack(*step) for step in reversed(kept[:_KEPT_STEPS]))


class Timelines:
    """The timelines of the partitions that are polled.

    A partition is touched only when its log grows or when it was missing in a poll: what rests costs nothing.
    """

    def __init__(self) -> None:
        self._recent: dict[Partition, Timeline] = {}
        self._former: dict[Partition, Timeline] = {}
        self._swept_at = float("-inf")
        self._polled: Mapping[Partition, Offsets] = {}
        self._polled_at = 0.0

    @property
    def known(self) -> Mapping[Partition, Timeline]:
        """The timelines of the partitions of the last poll, and of others."""
        return self._recent

    def polled(self, logs: Mapping[Partition, Offsets], *, now: float) -> None:
        """Add a poll at `now` (monotonic); the mapping must not be changed later."""
        before, recent = self._polled, self._recent
        for partition in before.keys() - logs.keys():
            recent[partition] = self._rested(recent[partition])
        if now - self._swept_at >= _FORGET_SECONDS:
            self._former, self._recent, self._swept_at = recent, {}, now
            recent = self._recent
        for partition, log in logs.items():
            known = recent.get(partition)
            if known is None and partition in self._former:
                known = recent[partition] = self._former.pop(partition)
            if known is None or log.end != known.end:
                if known is not None and partition in before and known.at < self._polled_at:
                    known = self._rested(known)
                recent[partition] = extend(known, at=now, end=log.end)
        self._polled, self._polled_at = logs, now

    def _rested(self, timeline: Timeline) -> Timeline:
        """Return a timeline with the last poll, which is not in it if the log had not grown."""
        return extend(timeline, at=self._polled_at, end=timeline.end)
