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

`Paces` are of members that fall behind: which part of their load they read meanwhile. The lag of a partition is a
saw-tooth that grows until the next commit. So only moments at which a new commit was first seen count for a pace, and
all holds for a commit every second and one an hour. A member that is behind reads as fast as it can, whether its lag
grows or it catches up after a stop; one that keeps up shows no more than that it can read its load. Pure: no I/O, no
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import add
from struct import Struct
from typing import Final, NamedTuple, TypeVar

from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.snapshot import LowerBound, Number, Pace, Part, PartitionTraffic

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


_BEHIND_SECONDS: Final = 10.0
_BEHIND_POLLS: Final = 3.0
"""Behind is a partition whose lag, right after a commit, is more than this time and that of this number of polls."""
_MIN_SECONDS: Final = 20.0
_MIN_POLLS: Final = 4.0
"""A pace is measured over at least this time and this number of polls, since commits are seen as late as a poll."""
_RECENT_SECONDS: Final = 90.0
"""... and not of much more, where commits are frequent."""
_NOISE_POLLS: Final = 2.0
"""An age is known within the time between two polls, and the difference of two ages within twice that."""
_FALLING: Final = 0.98
"""A member that reads at least this part of what comes does not fall behind."""
_INTERRUPTED: Final = 2.0
"""A commit that comes after this multiple of the usual time shows a pause in reading, and no pace."""
_UNKNOWN: Final = 0.1
"""The pace of a member is known if no more than this part of its load is of partitions whose pace is not."""
_THINNED: Final = 4.0
"""Commits closer to each other than their age divided by this are thinned."""


class Commit(NamedTuple):
    """A commit when it was first seen: monotonic seconds, its offset, the end of the log, the age of its record."""

    at: float
    committed: int
    end: int
    age: float


class _Behind(NamedTuple):
    """A partition that may be behind: its reader, its last commit, when that was seen, how long after the one before.

    `commits` are those since it is behind.
    """

    member: str
    committed: int
    at: float
    usual: float
    commits: tuple[Commit, ...] = ()


class Paces:
    """The paces of all groups; partitions that keep up by frequent commits cost nothing."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[int, dict[Partition, _Behind]]] = {}
        """What is known of each group, with a hash of who reads what."""

    def measured(
        self, group: str, partitions: Collection[PartitionTraffic], *, now: float, poll_seconds: float
    ) -> Mapping[str, Pace]:
        """Return the paces of members that are behind, by member id, after one more poll of what they own.

        `now` is its monotonic time, `poll_seconds` the time since the last one.
        """
        readers, before = self._groups.get(group, (0, {}))
        if before and readers != _readers(partitions):  # members read more or less than before, or paused for that
            before = {}
        behind = {
            partition.partition: track
            for partition in partitions
            if partition.member is not None
            and (track := _followed(before.get(partition.partition), partition, now=now, poll_seconds=poll_seconds))
            is not None
        }
        if behind:
            self._groups[group] = _readers(partitions), behind
        else:
            self._groups.pop(group, None)
        slow = {track.member for track in behind.values() if track.commits}
        if not slow:
            return {}
        owned: dict[str, list[PartitionTraffic]] = {member: [] for member in slow}
        for partition in partitions:
            if partition.member in owned:
                owned[partition.member].append(partition)
        return {member: _pace(mine, behind, now, poll_seconds) for member, mine in owned.items()}

    def forget(self, groups: Iterable[str]) -> None:
        """Forget groups that are gone."""
        for group in groups:
            self._groups.pop(group, None)


def _readers(partitions: Iterable[PartitionTraffic]) -> int:
    """Return a hash of who reads what."""
    return hash(tuple(partition.member for partition in partitions))


def behind_seconds(poll_seconds: float) -> float:
    """Return the lag, right after a commit, beyond which a partition is behind."""
    return max(_BEHIND_SECONDS, _BEHIND_POLLS * poll_seconds)


def _followed(before: _Behind | None, one: PartitionTraffic, *, now: float, poll_seconds: float) -> _Behind | None:
    """Return what is known of a partition after a poll; None if it keeps up by frequent commits, or has none."""
    limit = behind_seconds(poll_seconds)
    age, lag, committed = one.lag_seconds, one.lag_records, one.committed
    if one.member is None or committed is None or lag is None:
        return None
    keeps_up = age is not None and age <= limit
    if before is None or before.member != one.member or committed < before.committed:
        # when it was committed is not known, but not long before, as there was no lag then
        return None if keeps_up else _Behind(one.member, committed, now, limit)
    if committed == before.committed:
        return before
    usual = now - before.at
    if keeps_up:
        return _Behind(one.member, committed, now, usual) if usual > limit else None
    if age is None:
        return before._replace(committed=committed, at=now)
    commits = () if usual > _INTERRUPTED * before.usual else before.commits
    commits = _thinned_commits((*commits, Commit(now, committed, committed + lag, age)), poll_seconds)
    return _Behind(one.member, committed, now, usual, commits)


def _thinned_commits(commits: tuple[Commit, ...], poll_seconds: float) -> tuple[Commit, ...]:
    """Leave out commits that lie close together for their age."""
    *before, last = commits
    kept = [last]
    while before:
        one = before.pop()
        apart = max(_MIN_POLLS * poll_seconds, (last.at - kept[-1].at) / _THINNED)
        if not before or kept[-1].at - before[-1].at > apart:
            kept.append(one)
    return tuple(reversed(kept))


def _share(commits: tuple[Commit, ...], poll_seconds: float) -> float | None:
    """Return the part of what was written lately that was read; None while too little is known."""
    last = commits[-1]
    first = next((commit for commit in reversed(commits) if last.at - commit.at >= _RECENT_SECONDS), commits[0])
    if last.at - first.at < _min_seconds(poll_seconds) or last.end <= first.end:
        return None
    return (last.committed - first.committed) / (last.end - first.end)


def _grows(commits: tuple[Commit, ...], poll_seconds: float) -> bool:
    """Return whether the lag at commits has grown beyond what is uncertain, and did so up to the last ones."""
    last = commits[-1]
    return last.age > min(commit.age for commit in commits[-3:]) and any(
        last.at - commit.at >= _min_seconds(poll_seconds)
        and last.age - commit.age > _NOISE_POLLS * poll_seconds
        and last.committed - commit.committed < _FALLING * (last.end - commit.end)
        for commit in commits[:-1]
    )


def _min_seconds(poll_seconds: float) -> float:
    return max(_MIN_SECONDS, _MIN_POLLS * poll_seconds)


def _pace(
    owned: Iterable[PartitionTraffic], behind: Mapping[Partition, _Behind], now: float, poll_seconds: float
) -> Pace:
    """Return the pace of a member that is behind in some of its partitions; the others take all that comes.

    It is known only with nearly all of its partitions: one whose records wait takes what others would get.
    """
    load = read = unknown = lag = 0.0
    last, grows = 0.0, False
    for one in owned:
        rate, track = one.long_run_per_second or 0.0, behind.get(one.partition)
        share: float | None = 1.0
        if track is not None:
            share = _share(track.commits, poll_seconds) if track.commits else None
        if track is not None and track.commits:
            lag, last = max(lag, track.commits[-1].age), max(last, track.commits[-1].at)
            grows = grows or _grows(track.commits, poll_seconds)
        load, read = load + rate, read + rate * (share or 0.0)
        unknown += rate if share is None else 0.0
    is_known = load > 0 and unknown <= _UNKNOWN * load
    return Pace(
        lag_seconds=lag, ago_seconds=now - last, grows=grows, share=read / (load - unknown) if is_known else None
    )
