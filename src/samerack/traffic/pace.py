"""Which members fall behind, and which part of their load they read while they are: their pace.

The lag of a partition is a saw-tooth: it grows until the next commit. So only moments at which a new commit was first
seen count here, and all holds for a commit every second and one an hour. A member that is behind reads as fast as it
can, whether its lag grows or it catches up after a stop; one that keeps up shows no more than that it can read its
load. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from samerack.traffic.collect import Partition
from samerack.traffic.snapshot import Pace, PartitionTraffic

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
    """A partition that may be behind.

    Its reader, its last commit and when that was seen, how long after the one before, and the commits since it is
    behind.
    """

    member: str
    committed: int
    at: float
    usual: float
    commits: tuple[Commit, ...] = ()


class Paces:
    """The paces of all groups; partitions that keep up by frequent commits cost nothing."""

    def __init__(self) -> None:
        """Start with no group."""
        self._groups: dict[str, tuple[int, dict[Partition, _Behind]]] = {}
        """What is known of each group, with a hash of who reads what."""

    def measured(
        self, group: str, partitions: Collection[PartitionTraffic], *, now: float, poll_seconds: float
    ) -> Mapping[str, Pace]:
        """Return the paces of members that are behind, by member id, after one more poll.

        Args:
            group: The group's name.
            partitions: What its members own, at this poll.
            now: The time of the poll, in monotonic seconds.
            poll_seconds: The time since the last poll.
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
    commits = _thinned((*commits, Commit(now, committed, committed + lag, age)), poll_seconds)
    return _Behind(one.member, committed, now, usual, commits)


def _thinned(commits: tuple[Commit, ...], poll_seconds: float) -> tuple[Commit, ...]:
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
