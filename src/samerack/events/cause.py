"""Finds the cause of a rebalance, and how long partitions had no owner: pure functions of two snapshots of a group.

Brokers do not report why a group rebalances, so the cause is derived from what differs and from what the agent did.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from samerack.events.event import Cause

Partition: TypeAlias = tuple[str, int]
_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSnapshot:
    """One member other than the agent; a static one (`group.instance.id`) does not send LeaveGroup."""

    client_id: str
    static: bool = False
    topics: AbstractSet[str] = frozenset()
    owned: AbstractSet[Partition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """A snapshot of a group with an assignment in force, with how many partitions each known topic has.

    Members are by instance id, or member id where there is none, so that a static member's restart is no change.
    `cooperative`: whether they keep partitions in a rebalance (KIP-429, KIP-848, Kafka Streams).
    """

    members: Mapping[str, MemberSnapshot]
    cooperative: bool = False
    partitions: Mapping[str, int] = field(default_factory=dict)

    def owners(self) -> dict[Partition, str]:
        """Return the owner of each partition."""
        return {partition: key for key, member in self.members.items() for partition in member.owned}


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A partition that its owner revoked in a cooperative round and that has no owner yet."""

    owner: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What commits show about members, by key, at one time.

    The silent had stopped committing although there was more to read; the alive had committed so recently that no
    session can have expired since.
    """

    silent: AbstractSet[str] = frozenset()
    alive: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What else is known of a rebalance.

    `agent_reason` is why the agent began it, or ""; `agent_leads`: the plan after it is the agent's. `passing` are
    client ids, by key, of members that were seen while it was under way; `signs` is what commits showed when it began,
    `released` what had been revoked in the round before.
    """

    agent_reason: str = ""
    agent_leads: bool = False
    passing: Mapping[str, str] = field(default_factory=dict)
    signs: Signs = field(default_factory=Signs)
    released: Mapping[Partition, Released] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCause:
    """The cause of a rebalance, and the client ids of members that joined and left."""

    cause: Cause
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def cause_of(before: GroupSnapshot | None, after: GroupSnapshot | None, known: Known) -> FoundCause:
    """Find the cause of a rebalance from what differs before and after it; either snapshot may be missing."""
    if before is None or after is None:
        return FoundCause(cause="agent" if known.agent_reason else "unknown")
    joined = {key: member.client_id for key, member in after.members.items() if key not in before.members}
    joined |= {
        key: client for key, client in known.passing.items() if key not in before.members and key not in after.members
    }
    left = {key: member.client_id for key, member in before.members.items() if key not in after.members}
    return FoundCause(
        cause=_cause(before, after, known, joined=joined.keys(), left=left.keys()),
        joined=tuple(sorted(joined.values())),
        left=tuple(sorted(left.values())),
    )


def _cause(
    before: GroupSnapshot, after: GroupSnapshot, known: Known, *, joined: AbstractSet[str], left: AbstractSet[str]
) -> Cause:
    if known.agent_reason:
        return "agent"
    if left:
        if any(before.members[key].static or key in known.signs.silent for key in left):
            return "session-expired"
        return "member-left" if left <= known.signs.alive else "member-gone"
    if joined:
        return "member-joined"
    exist = before.partitions.keys() | after.partitions.keys()  # a plan has no topics that do not exist
    if any((member.topics ^ before.members[key].topics) & exist for key, member in after.members.items()):
        return "subscription-changed"
    had, has = before.owners().keys(), after.owners().keys()
    if has - had - known.released.keys() or any(_is_gone(one, after) for one in had - has):
        return "partitions-changed"
    if known.released:
        return "second-round"
    return "unknown" if known.agent_leads else "leader"


def _is_gone(partition: Partition, after: GroupSnapshot) -> bool:
    """Return whether a partition without an owner no longer exists, rather than being moved."""
    topic, number = partition
    if after.partitions:
        return number >= after.partitions.get(topic, 0)
    return not after.cooperative


def moved(
    before: GroupSnapshot,
    after: GroupSnapshot,
    released: Mapping[Partition, Released],
    returned: Mapping[str, str] = _NOBODY,
) -> int:
    """Return how many partitions have another owner than the one they had last, or had released in the round before.

    `returned` has the former keys of members that are back under others.
    """
    had = {partition: one.owner for partition, one in released.items()} | before.owners()
    return sum(
        had.get(partition, owner) not in (owner, returned.get(owner)) for partition, owner in after.owners().items()
    )


def pause(
    before: GroupSnapshot,
    after: GroupSnapshot,
    released: Mapping[Partition, Released],
    *,
    begun: float | None,
    ended: float,
) -> float | None:
    """Return the longest time that a partition had no owner, in seconds; None where it is unknown.

    Eager members revoke everything when they learn of the rebalance, and own partitions again when it is over.
    Cooperative ones keep the rest. Without owner were the partitions revoked in the round before, since then, and those
    of members that are gone, since the rebalance began (the silence of a dead member before that is not included).
    """
    had, has = before.owners(), after.owners()
    if not had and not released:
        return None
    waited = [ended - released[partition].at for partition in has if partition in released]
    orphaned = any(owner not in after.members for owner in had.values()) if after.cooperative else bool(had)
    if not orphaned:
        return max(waited, default=0.0)
    return max([*waited, ended - begun]) if begun is not None else None


def release(
    before: GroupSnapshot, after: GroupSnapshot, released: Mapping[Partition, Released], *, ended: float
) -> dict[Partition, Released]:
    """Return the partitions without owner after a cooperative round, since when, and their last owner."""
    if not after.cooperative:
        return {}
    has = after.owners().keys()
    given_up = {
        partition: Released(owner=owner, at=ended)
        for partition, owner in before.owners().items()
        if partition not in has and not _is_gone(partition, after)
    }
    return {partition: one for partition, one in {**given_up, **released}.items() if partition not in has}
