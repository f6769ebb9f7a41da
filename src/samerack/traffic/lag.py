"""How many records a group has not read yet, and how old the oldest of them is, by partition and topic.

The lag of a partition is its high watermark less the committed offset, as Kafka's own tools have it. That of a
partition without a committed offset is not known unless it is empty: whether the group will begin at its start or at
its end is a setting of its consumers.

In seconds the lag of a partition is the age of its oldest record that the group has not read: the time since the end of
the log passed the committed offset. The time is that of the brokers' logs, as polls saw it, not the timestamp in the
record. A `Timeline` remembers these polls: a record was written between the last one whose end lies at or below its
offset and the next one; between these two points the time is interpolated. The older the points, the fewer are kept, so
that a day of polls fits in about a hundred points.

That of a topic, a member or a group is the sum of its partitions, in seconds the largest. One partition that is not
known hides none of the others: the figure is a lower bound then, and has the number of such partitions beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import add
from struct import Struct
from typing import Final, TypeVar

from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.snapshot import LowerBound, Number, Part

_TICKS: Final = 100
"""Steps are in hundredths of a second, of times that are rounded first: no error adds up, and 32 bits hold a year."""
_STEP: Final = Struct("=II")
_LARGEST: Final = 2**32 - 1
_THINNED_EVERY: Final = 8
"""Steps are thinned each time that there are this many: of an hour of polls every five seconds 45 remain."""
_KEPT_STEPS: Final = 96
"""The most that remain then: two weeks of polls every five seconds."""
_SHARE_OF_AGE: Final = 5
"""Points closer to each other than this part of their age are thinned."""
_LONGEST_PAUSE: Final = 120 * _TICKS
"""What was written in a longer pause between two polls has no known age, until the pause is a small part of it."""
_FORGET_SECONDS: Final = 600.0
"""A partition that is not polled for this time is forgotten; a coordinator that moves hides groups for seconds."""


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


def extend_timeline(timeline: Timeline | None, *, at: float, end: int) -> Timeline:
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
                recent[partition] = extend_timeline(known, at=now, end=log.end)
        self._polled, self._polled_at = logs, now

    def _rested(self, timeline: Timeline) -> Timeline:
        """Return a timeline with the last poll, which is not in it if the log had not grown."""
        return extend_timeline(timeline, at=self._polled_at, end=timeline.end)


Key = TypeVar("Key")

NO_LAG: Final = LowerBound(value=0)
"""Everything was read."""


def lag_records(start: int, end: int, committed: int | None) -> int | None:
    """Return the lag of a partition from its first offset, its high watermark and the committed offset, if any."""
    if committed is None:
        return 0 if start == end else None
    return max(0, end - committed)


def lag_seconds(records: int | None, committed: int | None, timeline: Timeline | None, *, now: float) -> float | None:
    """Return the age of the oldest record that is not read, off by at most what `age_of` says.

    `records` is the lag in records, `now` the monotonic time of the last poll. Return 0 where nothing is left to be
    read; None where the lag in records is not known, and where the record was written before the timeline begins: it
    may be of any age then.
    """
    if not records:
        return None if records is None else 0.0
    return None if committed is None or timeline is None else age_of(timeline, committed, now=now)


def lag_by_key(lags: Iterable[tuple[Key, Part[int]]]) -> dict[Key, LowerBound[int]]:
    """Return the sum of each key, such as a topic."""
    return _by_key(lags, add)


def lag_of_all(lags: Iterable[Part[int]]) -> LowerBound[int]:
    """Return the sum."""
    return lag_by_key(("all", lag) for lag in lags).get("all", LowerBound())


def oldest_by_key(ages: Iterable[tuple[Key, Part[float]]]) -> dict[Key, LowerBound[float]]:
    """Return the largest age of each key, such as a topic."""
    return _by_key(ages, max)


def oldest_of_all(ages: Iterable[Part[float]]) -> LowerBound[float]:
    """Return the largest."""
    return oldest_by_key(("all", age) for age in ages).get("all", LowerBound())


def _by_key(
    parts: Iterable[tuple[Key, Part[Number]]], fold: Callable[[Number, Number], Number]
) -> dict[Key, LowerBound[Number]]:
    values: dict[Key, Number | None] = {}
    unknown: dict[Key, int] = {}
    for key, part in parts:
        value, missing = (part.value, part.unknown) if isinstance(part, LowerBound) else (part, int(part is None))
        before = values.get(key)
        values[key] = value if before is None else before if value is None else fold(before, value)
        unknown[key] = unknown.get(key, 0) + missing
    return {key: LowerBound(value=value, unknown=unknown[key]) for key, value in values.items()}
