"""Takes clients' counters, finds the member of each, and keeps its exact reads until the cycle collects them.

Posts come from the web server's threads. A member's exact bytes replace its estimate. While its client is silent it is
estimated again; what was estimated is subtracted from the next post, so that nothing counts twice. Only the agent that
measures a group takes counters of its clients. What they report counts as far as the logs can have given it
(`LogBounds`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from samerack.traffic.collect import Partition
from samerack.traffic.curve import Curve, bytes_between
from samerack.traffic.gaps import failed
from samerack.traffic.groups import owners_of
from samerack.traffic.sizes import PARTITION_BYTES, RESPONSE_BYTES
from samerack.traffic.snapshot import Family, Gap, ObservedGroup, ObservedMember, Volume
from samerack.traffic.statistics import Counters, Read, StatisticsError, reads

# Cuts what clients report to what the logs can have given them, by the sizes that brokers describe.
#
# A group can have read each partition once from its beginning to its end, what was written since, and the envelopes of
# its fetches. Twice all of it counts, for what no log shows: batches that are cut off and fetched again, and data that
# is fetched and dropped. Commits that go back allow a partition to be read from its beginning once more.

_SLACK: Final = 2.0
_FREE: Final = (float(4 << 20), 10_000.0)
"""Bytes and records beyond the logs: metadata of a large cluster, and partitions owned between two polls only."""
_FREE_SECONDS: Final = 60.0
"""In this time as many records are free again."""
_RESPONSES_PER_SECOND: Final = 100.0
"""This many envelopes count: `fetch.wait.max.ms` may be far below its default."""


@dataclass(slots=True, kw_only=True)
class _Left:
    """Bytes and records that may still be read of one partition, as its log was when it ended at `end`."""

    end: int
    amounts: list[float]


class LogBounds:
    """What the clients of one group may still report: every log may be read once."""

    def __init__(self) -> None:
        self._logs: dict[Partition, _Left] = {}
        self._beyond = list(_FREE)

    def rewound(self, partitions: Collection[Partition]) -> None:
        """Reset partitions in which the group's commits went back: they may be read from their beginning again."""
        for partition in partitions:
            self._logs.pop(partition, None)

    def cut(self, reads: Sequence[Read], curves: Mapping[Partition, Curve], *, seconds: float) -> list[Read]:
        """Return what one member read in some seconds, cut to what the logs had left, which decreases by that.

        The logs of `curves` were polled after the report. All partitions of a report are cut alike: clients count bytes
        by broker, and how these are split over partitions is estimated.
        """
        named = {read.partition for read in reads}
        logs = [self._refilled(partition, curves[partition]).amounts for partition in sorted(named & curves.keys())]
        envelopes = seconds * _RESPONSES_PER_SECOND * (RESPONSE_BYTES + PARTITION_BYTES * len(named))
        more = (_SLACK * envelopes, _FREE[1] * seconds / _FREE_SECONDS)
        self._beyond = [min(free, left) + new for free, left, new in zip(_FREE, self._beyond, more, strict=True)]
        reported = (sum(read.wire_bytes for read in reads), float(sum(read.records or 0 for read in reads)))
        wire_bytes, records = (_taken(logs, self._beyond, which, amount) for which, amount in enumerate(reported))
        return _scaled(reads, wire_bytes, records)

    def _refilled(self, partition: Partition, curve: Curve) -> _Left:
        """Add what was written since the last time; what was left is at most the whole log."""
        # the size alone does not include tiered segments
        records = curve.extent.end - curve.extent.start
        whole = (_SLACK * max(float(curve.extent.size_bytes), records * curve.density), _SLACK * records)
        left, end = self._logs.get(partition), curve.extent.end
        if left is None or left.end > end:  # another log
            left = _Left(end=end, amounts=list(whole))
        else:
            written = (bytes_between(curve, left.end, end), float(end - left.end))
            left.amounts = [
                min(most, before) + _SLACK * new for most, before, new in zip(whole, left.amounts, written, strict=True)
            ]
            left.end = end
        self._logs[partition] = left
        return left


def _taken(logs: Sequence[list[float]], beyond: list[float], which: int, reported: float) -> float:
    """Take bytes or records from what is left, first from the logs; return which share of the report was there."""
    of_logs = sum(left[which] for left in logs)
    there = min(reported, of_logs + beyond[which])
    share = min(1.0, there / of_logs) if of_logs else 0.0
    for left in logs:
        left[which] *= 1.0 - share
    beyond[which] -= max(0.0, there - of_logs)
    return there / reported if reported else 1.0


MemberKey: TypeAlias = tuple[str, str]
"""Group and member id."""

STALE_SECONDS: Final = 60.0
"""A client that has not posted for this long is estimated again."""
MAX_CLIENTS: Final = 4
"""This many clients may report for one member, as it is one process that may be restarted; of as many silent ones the
counters are stored."""
MAX_PARTITIONS: Final = 200_000
"""This many partitions are stored of all clients that report, and as many of silent ones."""


@dataclass(slots=True, kw_only=True)
class _Client:
    counters: Counters
    member: MemberKey
    heard_at: float

    def is_silent(self, now: float) -> bool:
        """Whether its member is estimated again."""
        return now - self.heard_at >= STALE_SECONDS


class ExactReads:
    """Counters of clients, by group and client."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: Mapping[str, ObservedGroup] = {}
        self._partitions: Mapping[str, int] = {}
        self._serving: Mapping[MemberKey, Mapping[Partition, int]] = {}
        self._since: Mapping[str, float] = {}
        self._members: frozenset[MemberKey] = frozenset()
        self._estimated: dict[MemberKey, Volume] = {}
        self._clients: dict[tuple[str, str], _Client] = {}
        self._forgotten: dict[str, float] = {}
        """By group, the last time when a client was heard of which nothing is stored any more."""
        self._unread: dict[MemberKey, dict[tuple[Partition, int], Read]] = {}
        self._bounds: dict[str, LogBounds] = {}
        self._collected_at = float("-inf")
        self.gaps: list[Gap] = []
        """Of which members the last call of `collect` has cut reports."""

    def see(
        self,
        groups: Mapping[str, ObservedGroup],
        partitions: Mapping[str, int],
        serving: Mapping[MemberKey, Mapping[Partition, int]],
        *,
        since: Mapping[str, float],
    ) -> None:
        """Record a poll; posts are checked against it.

        `partitions` has how many partitions topics have, `serving` the broker that serves each member's partitions,
        `since` the monotonic time since when this agent measures a group; all that is known of clients of other groups
        is forgotten.
        """
        with self._lock:
            kept = {name for name, begun in since.items() if self._since.get(name) == begun}
            self._groups, self._partitions, self._serving, self._since = groups, partitions, serving, since
            self._members = frozenset((name, member.id) for name, one in groups.items() for member in one.members)
            self._clients = {name: client for name, client in self._clients.items() if name[0] in kept}
            self._unread = {key: found for key, found in self._unread.items() if key[0] in kept}
            self._bounds = {name: bounds for name, bounds in self._bounds.items() if name in kept}
            self._forgotten = {name: heard_at for name, heard_at in self._forgotten.items() if name in kept}
            self._estimated = {
                key: volume for key, volume in self._estimated.items() if key[0] in kept and key in self._members
            }

    def estimated(self, member: MemberKey, volume: Volume) -> None:
        """Record what was estimated, and counted, for a member."""
        with self._lock:
            self._estimated[member] = self._estimated.get(member, Volume()) + volume

    def post(self, group: str, counters: Counters, *, now: float, member_id: str | None = None) -> ObservedMember:
        """Take the counters of one client of a group, at monotonic seconds.

        `member_id` is a member or instance id where the caller knows it; otherwise the member is found by what it owns
        and by its client id.

        Raises:
            StatisticsError: No such group, partition or member, or there are too many clients; nothing is changed.
        """
        with self._lock:
            observed, since = self._groups.get(group), self._since.get(group)
            if observed is None or since is None:
                raise StatisticsError(
                    f"group {group!r} is not observed; name one of traffic.groups with ?group=NAME, as the brokers do"
                )
            for topic, number in counters.messages or ():
                if number >= self._partitions.get(topic, 0):
                    raise StatisticsError(f"partition {topic}-{number} is unknown in the cluster of this agent")
            member = _member(observed, counters, member_id)
            key = (group, member.id)
            name = (group, counters.client)
            self._forget_silent(now)
            self._check_may_report(key, name, counters, now=now)
            before, serving = self._clients.get(name), self._serving.get(key, {})
            # what a client received before may have counted already
            unknown_until = max(since, self._forgotten.get(group, since))
            found: list[Read] = []
            if before is not None:
                found = reads(before.counters, counters, serving)
            elif counters.age_seconds is not None and counters.age_seconds <= now - unknown_until:
                found = reads(None, counters, serving)
            self._clients[name] = _Client(counters=counters, member=key, heard_at=now)
            _add(self._unread.setdefault(key, {}), _less(found, self._estimated.pop(key, Volume())))
            return member

    def members(self, *, now: float) -> frozenset[MemberKey]:
        """Return the members whose bytes are known exactly at present."""
        with self._lock:
            self._forget_silent(now)
            return frozenset(client.member for client in self._clients.values() if not client.is_silent(now))

    def collect(
        self,
        curves: Mapping[Partition, Curve],
        *,
        now: float,
        rewound: Mapping[str, Collection[Partition]] | None = None,
    ) -> dict[str, dict[str, list[Read]]]:
        """Return the reads since the last call, by group and member id, as far as the logs can have given them.

        `curves` were polled after the posts, at `now` (monotonic); `rewound` are the partitions in which a group's
        commits went back.
        """
        with self._lock:
            unread, self._unread, self.gaps = self._unread, {}, []
            collected: dict[str, dict[str, list[Read]]] = {}
            for group, back in (rewound or {}).items():
                if group in self._bounds:
                    self._bounds[group].rewound(back)
            for (group, member), found in unread.items():
                bounds = self._bounds.setdefault(group, LogBounds())
                seconds = now - max(self._collected_at, self._since[group])
                counted = bounds.cut(list(found.values()), curves, seconds=seconds)
                collected.setdefault(group, {})[member] = counted
                if any(read != found[read.partition, read.broker] for read in counted):
                    reason = f"member {member}: its client reports more than the logs of its partitions had"
                    self.gaps.append(failed(Family.STATISTICS, group, reason))
            self._collected_at = now
            return collected

    def _forget_silent(self, now: float) -> None:
        """Forget the silent clients of members that are gone, and the longest silent ones beyond the bounds."""
        silent = [(name, client) for name, client in self._clients.items() if client.is_silent(now)]
        numbers: Counter[MemberKey] = Counter()
        partitions = 0
        for name, client in sorted(silent, key=lambda one: one[1].heard_at, reverse=True):
            numbers[client.member] += 1
            partitions += _partitions(client.counters)
            is_bounded = numbers[client.member] <= MAX_CLIENTS and partitions <= MAX_PARTITIONS
            if client.member not in self._members or not is_bounded:
                del self._clients[name]
                group = name[0]
                self._forgotten[group] = max(client.heard_at, self._forgotten.get(group, client.heard_at))

    def _check_may_report(self, key: MemberKey, name: tuple[str, str], counters: Counters, *, now: float) -> None:
        """Raise a StatisticsError if there are too many clients or partitions."""
        others = [client for one, client in self._clients.items() if one != name and not client.is_silent(now)]
        if sum(client.member == key for client in others) >= MAX_CLIENTS:
            raise StatisticsError(f"{MAX_CLIENTS} clients report member {key[1]!r} already; only one may")
        if sum(_partitions(client.counters) for client in others) + _partitions(counters) > MAX_PARTITIONS:
            raise StatisticsError(f"with what other clients report it would be more than {MAX_PARTITIONS} partitions")


def _partitions(counters: Counters) -> int:
    return len(counters.messages or ())


def _add(unread: dict[tuple[Partition, int], Read], found: Iterable[Read]) -> None:
    """Add reads, summed by partition and broker."""
    for read in found:
        place = (read.partition, read.broker)
        before = unread.get(place)
        if before is None:
            unread[place] = read
            continue
        records = None if before.records is None or read.records is None else before.records + read.records
        unread[place] = replace(read, wire_bytes=before.wire_bytes + read.wire_bytes, records=records)


def _member(group: ObservedGroup, counters: Counters, member_id: str | None) -> ObservedMember:
    if member_id is not None:
        for member in group.members:
            if member_id in (member.id, member.instance_id):
                return member
        raise StatisticsError(f"group {group.group!r} has no member {member_id!r}")
    alike = [member for member in group.members if member.client_id == counters.client_id]
    if len(alike) == 1:
        return alike[0]
    owners: dict[Partition, ObservedMember] = owners_of(group)
    votes = Counter(owners[partition].id for partition in counters.served_by or () if partition in owners)
    for member in alike:
        if votes and member.id == votes.most_common(1)[0][0]:
            return member
    if not alike:
        raise StatisticsError(f"group {group.group!r} has no member with client.id {counters.client_id!r}")
    raise StatisticsError(
        f"group {group.group!r} has {len(alike)} members with client.id {counters.client_id!r}, and none of them owns "
        "what these statistics name; give each its own client.id, or add &member=ID"
    )


def _less(found: Sequence[Read], estimated: Volume) -> list[Read]:
    """Subtract what was estimated before from the reads, in proportion."""
    wire_bytes, records = sum(read.wire_bytes for read in found), sum(read.records or 0 for read in found)
    return _scaled(found, _share_left(wire_bytes, estimated.wire_bytes), _share_left(records, estimated.records))


def _share_left(whole: float, taken: int) -> float:
    return max(0.0, 1.0 - taken / whole) if whole else 1.0


def _scaled(reads: Iterable[Read], wire_bytes: float, records: float) -> list[Read]:
    """Multiply bytes and records by these shares."""
    return [
        replace(
            read,
            wire_bytes=read.wire_bytes * wire_bytes,
            records=None if read.records is None else int(read.records * records),
        )
        for read in reads
    ]
