"""Finds the cause of a rebalance, and how long partitions had no owner, from two snapshots of a group.

Brokers do not report why a group rebalances, so the cause is derived from what differs and from what the agent did.
Snapshots come from a member's poll, from measuring, or from the agent's own plan; members without topics, which are
agents, are not in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Int32Array, Problem
from samerack.cluster.group import GroupView, MemberView, member_key
from samerack.cluster.racks import client_id_of
from samerack.events.event import Cause
from samerack.protocol.values import to_pairs
from samerack.settings.leading import COOPERATIVE_PROTOCOLS
from samerack.traffic.snapshot import GroupTraffic

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


def of_view(view: GroupView, *, partitions: Mapping[str, int]) -> GroupSnapshot:
    """Convert a poll of a stable group without the agent; `partitions` has how many each topic has."""
    return GroupSnapshot(
        members={
            member.key: MemberSnapshot(
                client_id=member.client_id,
                static=member.instance_id is not None,
                topics=frozenset(member.subscription.topics if member.subscription is not None else ()),
                owned=frozenset(to_pairs(member.assigned)),
            )
            for member in view.members
            if member.subscription is None or member.subscription.topics
        },
        cooperative=view.protocol in COOPERATIVE_PROTOCOLS,
        partitions=partitions,
    )


def of_plan(problem: Problem, owner: Int32Array, *, clients: Mapping[str, str], cooperative: bool) -> GroupSnapshot:
    """Convert a problem and its solution in this round; `clients` are client ids by key, of polled members."""
    owned: dict[int, set[Partition]] = {}
    for topic, number, member in zip(
        problem.topic_of.tolist(), problem.number_of.tolist(), owner.tolist(), strict=True
    ):
        if member != NOBODY:
            owned.setdefault(member, set()).add((problem.topics[topic], number))
    members = {}
    for index, (member_id, instance) in enumerate(zip(problem.members, problem.instance_ids, strict=True)):
        key = member_key(member_id, instance)
        subscribed = problem.subscriptions[problem.subscription_of[index]].tolist()
        members[key] = MemberSnapshot(
            client_id=clients.get(key) or client_id_of(member_id),
            static=instance is not None,
            topics=frozenset(topic for topic, is_read in zip(problem.topics, subscribed, strict=True) if is_read),
            owned=frozenset(owned.get(index, ())),
        )
    counts = dict(Counter(problem.topics[topic] for topic in problem.topic_of.tolist()))
    return GroupSnapshot(members=members, cooperative=cooperative, partitions=counts)


def of_traffic(group: GroupTraffic, *, partitions: Mapping[str, int]) -> GroupSnapshot:
    """Convert a measured group; `partitions` has how many each topic has."""
    owned: dict[str, set[Partition]] = {}
    for partition in group.partitions:
        if partition.member is not None:
            owned.setdefault(partition.member, set()).add(partition.partition)
    return GroupSnapshot(
        members={
            member_key(member.id, member.instance_id): MemberSnapshot(
                client_id=member.client_id,
                static=member.instance_id is not None,
                topics=member.topics,
                owned=frozenset(owned.get(member.id, ())),
            )
            for member in group.members
        },
        cooperative=group.kind in ("consumer", "streams", "streams-classic") or group.assignor in COOPERATIVE_PROTOCOLS,
        partitions=partitions,
    )


def share_of(problem: Problem | None) -> float | None:
    """Return the share of a group's present assignment that crosses racks, by weight; None where unknown."""
    if problem is None:
        return None
    return evaluate(problem, problem.owner).min_share


def clients_of(members: Iterable[MemberView], *, agent: str) -> dict[str, str]:
    """Return client ids by key, without the agent of this instance id; also while the group rebalances."""
    return {
        member.key: member.client_id
        for member in members
        if member.instance_id != agent and (member.subscription is None or member.subscription.topics)
    }
