"""What a rebalance began with, and how long partitions had no owner: pure functions of two pictures of a group.

The brokers tell nobody why a group rebalances, so it is worked out from what differs and from what the agent itself
did.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from agent.events.model import Cause

Partition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSeen:
    """One member without the agent.

    Attributes:
        client_id: as the client names itself, for people.
        static: whether it has a `group.instance.id`: such a member does not say that it leaves.
        topics: what it subscribes to.
        owned: its partitions.
    """

    client_id: str
    static: bool = False
    topics: AbstractSet[str] = frozenset()
    owned: AbstractSet[Partition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A group with an assignment in force.

    Attributes:
        members: by instance id, or member id where there is none, so that a static member's restart is no change.
        cooperative: whether its members keep what they have in a rebalance (KIP-429, KIP-848, Kafka Streams).
        partitions: how many each topic has, of those that are known.
    """

    members: Mapping[str, MemberSeen]
    cooperative: bool = False
    partitions: Mapping[str, int] = field(default_factory=dict)

    def owners(self) -> dict[Partition, str]:
        """Who owns what."""
        return {partition: key for key, member in self.members.items() for partition in member.owned}


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A partition that its owner gave up in a cooperative round and that nobody owns yet."""

    owner: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What commits tell of members, by key, at one time.

    Attributes:
        silent: had stopped committing although there was more to read.
        alive: had committed so lately that no session can have run out since.
    """

    silent: AbstractSet[str] = frozenset()
    alive: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What else is known of a rebalance.

    Attributes:
        ours: why the agent began it, or "".
        agent_leads: whether the plan after it is the agent's.
        passing: client ids, by key, of members that were seen while it was under way.
        signs: of life, when it began.
        released: what had been given up in the round before.
    """

    ours: str = ""
    agent_leads: bool = False
    passing: Mapping[str, str] = field(default_factory=dict)
    signs: Signs = field(default_factory=Signs)
    released: Mapping[Partition, Released] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a rebalance began with, and the client ids of who came and went."""

    cause: Cause
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def cause_of(before: Picture | None, after: Picture | None, known: Known) -> Found:
    """What a rebalance began with, by what differs before and after it; either picture may be missing."""
    if before is None or after is None:
        return Found(cause="agent" if known.ours else "unknown")
    came = {key: member.client_id for key, member in after.members.items() if key not in before.members}
    came |= {
        key: client for key, client in known.passing.items() if key not in before.members and key not in after.members
    }
    gone = {key: member.client_id for key, member in before.members.items() if key not in after.members}
    return Found(
        cause=_cause(before, after, known, came=came.keys(), gone=gone.keys()),
        joined=tuple(sorted(came.values())),
        left=tuple(sorted(gone.values())),
    )


def _cause(before: Picture, after: Picture, known: Known, *, came: AbstractSet[str], gone: AbstractSet[str]) -> Cause:
    if known.ours:
        return "agent"
    if gone:
        if any(before.members[key].static or key in known.signs.silent for key in gone):
            return "session-expired"
        return "member-left" if gone <= known.signs.alive else "member-gone"
    if came:
        return "member-joined"
    exist = before.partitions.keys() | after.partitions.keys()  # a plan says nothing of topics that do not
    if any((member.topics ^ before.members[key].topics) & exist for key, member in after.members.items()):
        return "subscription-changed"
    had, has = before.owners().keys(), after.owners().keys()
    if has - had - known.released.keys() or any(_is_gone(one, after) for one in had - has):
        return "partitions-changed"
    if known.released:
        return "second-round"
    return "unknown" if known.agent_leads else "leader"


def _is_gone(partition: Partition, after: Picture) -> bool:
    """Whether a partition without an owner is one that does not exist any more, rather than on its way."""
    topic, number = partition
    if after.partitions:
        return number >= after.partitions.get(topic, 0)
    return not after.cooperative


def moved(before: Picture, after: Picture, released: Mapping[Partition, Released]) -> int:
    """How many partitions have another owner than the one they had last."""
    had = {partition: one.owner for partition, one in released.items()} | before.owners()
    return sum(had.get(partition, owner) != owner for partition, owner in after.owners().items())


def pause(
    before: Picture, after: Picture, released: Mapping[Partition, Released], *, begun: float | None, ended: float
) -> float | None:
    """The longest time that a partition had no owner, in seconds; None where it cannot be told.

    Eager members give everything up when they hear of the rebalance, and have something again when it is over.
    Cooperative ones go on with what stays: without owner was what a round before had given up, from then on, and what
    members had that are gone, from when the rebalance began (the silence of a dead member before that is not in it).
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
    before: Picture, after: Picture, released: Mapping[Partition, Released], *, ended: float
) -> dict[Partition, Released]:
    """What nobody owns after a cooperative round, since when, and whose it was."""
    if not after.cooperative:
        return {}
    has = after.owners().keys()
    given_up = {
        partition: Released(owner=owner, at=ended)
        for partition, owner in before.owners().items()
        if partition not in has and not _is_gone(partition, after)
    }
    return {partition: one for partition, one in {**given_up, **released}.items() if partition not in has}
