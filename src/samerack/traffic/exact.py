"""Takes clients' counters, finds the member of each, and keeps its exact reads until the cycle collects them.

Posts come from the web server's threads. A member's exact bytes replace its estimate; on the first post of a client
what was already estimated for its member is subtracted, so that nothing counts twice. Between two posts only that
counts which this agent had a claim to at both. Reports are checked against what the logs allow
(`traffic.allowance`) when they are collected, right after a poll of the logs; a member whose client reports more
is estimated for a while.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from samerack.election.counting import Claim
from samerack.election.leadership_state import LeadershipState
from samerack.protocol.values import to_pairs
from samerack.traffic.allowance import Allowances, MemberKey
from samerack.traffic.collect import Partition
from samerack.traffic.curve import Curve
from samerack.traffic.gaps import failed
from samerack.traffic.groups import ObservedGroup
from samerack.traffic.snapshot import Family, Gap, ObservedMember
from samerack.traffic.statistics import Counters, Read, StatisticsError, reads

STALE_SECONDS: Final = 60.0
"""A client that has not posted for this long is estimated again."""
REFUSED_SECONDS: Final = 600.0
"""A member whose client reported impossible reads is estimated for this long."""
MAX_CLIENTS: Final = 4
"""This many clients may report for one member: it is one process, which may be restarted."""
MAX_PARTITIONS: Final = 200_000
"""This many partitions are stored of all clients together."""
_AT_BIRTH_SECONDS: Final = 15.0
"""Nothing was missed of a client whose counters began at most this long before the agent did."""


@dataclass(slots=True, kw_only=True)
class _Client:
    counters: Counters
    member: MemberKey
    heard_at: float
    claims: frozenset[Claim]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    until: float
    reason: str


@dataclass(slots=True, kw_only=True)
class _State:
    groups: Mapping[str, ObservedGroup] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    serving: Mapping[MemberKey, Mapping[Partition, int]] = field(default_factory=dict)
    curves: Mapping[Partition, Curve] = field(default_factory=dict)
    at: float = 0.0
    estimated: Counter[MemberKey] = field(default_factory=Counter)


class ExactReads:
    """Counters of clients, by group and client."""

    def __init__(self, *, began_at: float, leadership: LeadershipState | None = None) -> None:
        """Prepare; `began_at` is when the agent started to poll, on the clock of `now`. Alone, the agent counts all."""
        self._began_at = began_at
        self._leadership = leadership or LeadershipState()
        self._lock = threading.Lock()
        self._state = _State(at=began_at)
        self._clients: dict[tuple[str, str], _Client] = {}
        self._unread: dict[MemberKey, dict[tuple[Partition, int], Read]] = {}
        self._allowances = Allowances()
        self._refused: dict[MemberKey, _Refusal] = {}
        self._doubted: set[MemberKey] = set()

    def see(  # noqa: PLR0913 - one poll, and all are named
        self,
        groups: Mapping[str, ObservedGroup],
        partitions: Mapping[str, int],
        serving: Mapping[MemberKey, Mapping[Partition, int]],
        *,
        curves: Mapping[Partition, Curve] | None = None,
        rewound: Mapping[str, frozenset[Partition]] | None = None,
        now: float | None = None,
    ) -> None:
        """Record a poll at `now` (monotonic); posts are checked against it.

        `partitions` has how many partitions topics have, `serving` the broker that serves each member's partitions,
        `rewound` the partitions in which a group's commits went back.
        """
        with self._lock:
            state = self._state
            state.groups, state.partitions, state.serving = groups, partitions, serving
            state.curves = curves if curves is not None else {}
            state.at = now if now is not None else state.at
            there = {(name, member.id) for name, group in groups.items() for member in group.members}
            self._allowances.keep(there | self._unread.keys())  # some have reported something, and left
            for name, back in (rewound or {}).items():
                self._allowances.rewound(name, back)
            self._doubted &= there
            self._refused = {key: one for key, one in self._refused.items() if key in there and state.at < one.until}

    def estimated(self, member: MemberKey, wire_bytes: float) -> None:
        """Record bytes that were estimated, and counted, for a member."""
        with self._lock:
            self._state.estimated[member] += round(wire_bytes)

    def post(self, group: str, counters: Counters, *, now: float, member_id: str | None = None) -> ObservedMember:
        """Take the counters of one client of a group, at monotonic seconds.

        `member_id` is a member or instance id where the caller knows it; otherwise the member is found by what it owns
        and by its client id.

        Raises:
            StatisticsError: No such group, partition or member, or the post is refused; nothing is changed.
        """
        with self._lock:
            observed = self._state.groups.get(group)
            if observed is None:
                raise StatisticsError(
                    f"group {group!r} is not observed; name one of traffic.groups with ?group=NAME, as the brokers do"
                )
            for topic, number in counters.messages:
                if number >= self._state.partitions.get(topic, 0):
                    raise StatisticsError(f"partition {topic}-{number} is unknown in the cluster of this agent")
            member = _member(observed, counters, member_id)
            key = (group, member.id)
            name = (group, counters.client)
            before = self._clients.get(name)
            self._check_may_tell(key, name, counters)
            sure = self._leadership.sure_claims()
            if sure is None and before is not None:
                before.heard_at = now  # reads since then are counted once it is known by which agent
                return member
            claims = sure.of_member(group, member.id) if sure is not None else frozenset()
            serving = self._state.serving.get(key, {})
            found: list[Read] = []
            if before is None:
                if claims and self._counted_from_start(counters, now, min(claim.since for claim in claims)):
                    found = _less(reads(None, counters, serving), self._state.estimated.pop(key, 0))
            elif before.claims & claims:
                found = reads(before.counters, counters, serving)
            self._clients[name] = _Client(counters=counters, member=key, heard_at=now, claims=claims)
            _add(self._unread.setdefault(key, {}), found)
            return member

    def reporting_members(self, *, now: float) -> frozenset[MemberKey]:
        """Return the members whose clients report to this agent at present."""
        with self._lock:
            self._clients = {
                name: client for name, client in self._clients.items() if now - client.heard_at < STALE_SECONDS
            }
            return frozenset(client.member for client in self._clients.values())

    def members(self, *, now: float) -> frozenset[MemberKey]:
        """Return those of them that this agent counts, whose bytes are known exactly at present."""
        reporting_members = self.reporting_members(now=now)
        with self._lock:
            return reporting_members & {client.member for client in self._clients.values() if client.claims}

    def collect(self) -> dict[MemberKey, list[Read]]:
        """Return the reads since the last call, by member: those that are possible by the last poll.

        Reports of a member wait while its partitions are unknown, and impossible ones for one more poll: they may have
        arrived while the poll was under way.
        """
        with self._lock:
            unread, self._unread = self._unread, {}
            collected: dict[MemberKey, list[Read]] = {}
            for key, found in unread.items():
                group = self._state.groups.get(key[0])
                member = next((one for one in group.members if one.id == key[1]), None) if group is not None else None
                if group is None:
                    continue
                if not group.owned_known:
                    self._unread[key] = found
                    continue
                owned = to_pairs(member.owned) if member is not None else ()
                reason = self._allowances.take(
                    key, list(found.values()), owned=owned, curves=self._state.curves, now=self._state.at
                )
                if not reason:
                    collected[key] = list(found.values())
                    self._doubted.discard(key)
                elif member is not None and key in self._doubted:
                    self._refuse(key, reason)
                elif member is not None:
                    self._unread[key] = found
                    self._doubted.add(key)
            return collected

    def refused(self) -> list[Gap]:
        """Return the members whose clients reported impossible reads."""
        with self._lock:
            return [
                failed(Family.STATISTICS, group, f"member {member}: {refusal.reason}")
                for (group, member), refusal in self._refused.items()
            ]

    def _refuse(self, key: MemberKey, reason: str) -> None:
        self._doubted.discard(key)
        self._refused[key] = _Refusal(until=self._state.at + REFUSED_SECONDS, reason=reason)
        self._clients = {name: client for name, client in self._clients.items() if client.member != key}

    def _check_may_tell(self, key: MemberKey, name: tuple[str, str], counters: Counters) -> None:
        """Raise a StatisticsError if the member's client has just reported impossible reads, or there is too much."""
        if key in self._refused:
            raise StatisticsError(f"{self._refused[key].reason}; its bytes are estimated for a while")
        others = [client for one, client in self._clients.items() if one != name]
        if sum(client.member == key for client in others) >= MAX_CLIENTS:
            raise StatisticsError(f"{MAX_CLIENTS} clients report member {key[1]!r} already; only one may")
        if sum(len(client.counters.messages) for client in others) + len(counters.messages) > MAX_PARTITIONS:
            raise StatisticsError(f"with what other clients report it would be more than {MAX_PARTITIONS} partitions")

    def _counted_from_start(self, counters: Counters, now: float, since: float) -> bool:
        if counters.age_seconds is None:
            return False
        return counters.age_seconds <= now - max(self._began_at - _AT_BIRTH_SECONDS, since)


def _add(unread: dict[tuple[Partition, int], Read], found: Iterable[Read]) -> None:
    """Add reads, summed by partition and broker."""
    for read in found:
        place = (read.partition, read.broker)
        before = unread.get(place)
        unread[place] = (
            replace(read, wire_bytes=before.wire_bytes + read.wire_bytes, records=before.records + read.records)
            if before is not None
            else read
        )


def _member(group: ObservedGroup, counters: Counters, member_id: str | None) -> ObservedMember:
    if member_id is not None:
        for member in group.members:
            if member_id in (member.id, member.instance_id):
                return member
        raise StatisticsError(f"group {group.group!r} has no member {member_id!r}")
    alike = [member for member in group.members if member.client_id == counters.client_id]
    if len(alike) == 1:
        return alike[0]
    owners: dict[Partition, ObservedMember] = group.owners()
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


def _less(found: list[Read], estimated: int) -> list[Read]:
    """Subtract what was estimated before from the reads, in proportion."""
    whole = sum(read.wire_bytes for read in found)
    if not estimated or whole <= 0:
        return found
    share = max(0.0, 1.0 - estimated / whole)
    return [replace(read, wire_bytes=read.wire_bytes * share) for read in found]
