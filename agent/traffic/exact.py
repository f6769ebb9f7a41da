"""Which members are known exactly: takes clients' counters, finds the member, and keeps what was read until collected.

Posts come from the web's threads, the cycle collects. A member's exact bytes replace its estimate; on the first post of
a client what was already estimated for its member is taken off, so that nothing counts twice. Between two posts counts
what this agent had a claim to at both. What must not enter: HTTP, and how counters are read.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from agent.election.counting import Claim
from agent.election.standing import Alone, Standing
from agent.traffic.collect import Partition
from agent.traffic.groups import ObservedGroup, ObservedMember
from agent.traffic.statistics import Counters, Read, StatisticsError, reads

STALE_SECONDS: Final = 60.0
"""A client that has not posted for so long is estimated again."""
_AT_BIRTH_SECONDS: Final = 15.0
"""A client whose counters began less than this before it was first heard of has nothing that was missed."""

MemberKey: TypeAlias = tuple[str, str]
"""Group and member id."""


@dataclass(slots=True, kw_only=True)
class _Client:
    counters: Counters
    member: MemberKey
    heard_at: float
    claims: frozenset[Claim]


@dataclass(slots=True, kw_only=True)
class _State:
    groups: Mapping[str, ObservedGroup] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    serving: Mapping[MemberKey, Mapping[Partition, int]] = field(default_factory=dict)
    estimated: Counter[MemberKey] = field(default_factory=Counter)


class ExactReads:
    """Counters of clients, by group and client."""

    def __init__(self, *, began_at: float, standing: Standing | None = None) -> None:
        """Prepare.

        Args:
            began_at: When the agent began to look, on the clock that `now` is given on.
            standing: What this agent is to count; everything where it is alone.
        """
        self._began_at = began_at
        self._standing = standing or Alone()
        self._lock = threading.Lock()
        self._state = _State()
        self._clients: dict[tuple[str, str], _Client] = {}
        self._unread: dict[MemberKey, list[Read]] = {}

    def see(
        self,
        groups: Mapping[str, ObservedGroup],
        partitions: Mapping[str, int],
        serving: Mapping[MemberKey, Mapping[Partition, int]],
    ) -> None:
        """Take note of the groups, of how many partitions topics have, and of who serves what; posts are held to it."""
        with self._lock:
            self._state.groups, self._state.partitions, self._state.serving = groups, partitions, serving

    def estimated(self, member: MemberKey, wire_bytes: float) -> None:
        """Take note of bytes that were estimated, and counted, for a member."""
        with self._lock:
            self._state.estimated[member] += round(wire_bytes)

    def post(self, group: str, counters: Counters, *, now: float, member_id: str | None = None) -> ObservedMember:
        """Take the counters of one client.

        Args:
            group: Its group.
            counters: What it counted.
            now: Seconds, monotonic.
            member_id: Member id or instance id where the caller knows it; otherwise the member is found by what it
                owns and by its client id.

        Raises:
            StatisticsError: No such group, partition or member; nothing is changed.
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
            sure = self._standing.sure_claims()
            if sure is None and before is not None:
                before.heard_at = now  # what came since will be counted once it is known by whom
                return member
            claims = sure.of_member(group, member.id) if sure is not None else frozenset()
            serving = self._state.serving.get(key, {})
            found: list[Read] = []
            if before is None:
                if claims and self._seen_from_birth(counters, now, min(claim.since for claim in claims)):
                    found = _less(reads(None, counters, serving), self._state.estimated.pop(key, 0))
            elif before.claims & claims:
                found = reads(before.counters, counters, serving)
            self._clients[name] = _Client(counters=counters, member=key, heard_at=now, claims=claims)
            self._unread.setdefault(key, []).extend(found)
            return member

    def told(self, *, now: float) -> frozenset[MemberKey]:
        """Members whose clients tell this agent what they read, at present."""
        with self._lock:
            self._clients = {
                name: client for name, client in self._clients.items() if now - client.heard_at < STALE_SECONDS
            }
            return frozenset(client.member for client in self._clients.values())

    def members(self, *, now: float) -> frozenset[MemberKey]:
        """Members that are known exactly at present: those of them that this agent counts."""
        told = self.told(now=now)
        with self._lock:
            return told & {client.member for client in self._clients.values() if client.claims}

    def collect(self) -> dict[MemberKey, list[Read]]:
        """What was read since the last call, by member."""
        with self._lock:
            unread, self._unread = self._unread, {}
            return unread

    def _seen_from_birth(self, counters: Counters, now: float, since: float) -> bool:
        if counters.age_seconds is None:
            return False
        return counters.age_seconds <= now - max(self._began_at - _AT_BIRTH_SECONDS, since)


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
    """The reads less what was estimated before, in proportion."""
    whole = sum(read.wire_bytes for read in found)
    if not estimated or whole <= 0:
        return found
    share = max(0.0, 1.0 - estimated / whole)
    return [
        Read(partition=read.partition, broker=read.broker, wire_bytes=read.wire_bytes * share, records=read.records)
        for read in found
    ]
