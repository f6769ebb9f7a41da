"""A consumer group as its coordinator describes it: an immutable value, in the broker's own order of members.

The order matters: when the leader goes, the coordinator makes the first listed member the next leader. Metadata and
assignments are read leniently: a member whose bytes cannot be decoded is shown with the reason, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from protocol.consumer import decode_assignment, decode_subscription
from protocol.errors import ProtocolError
from protocol.model import NO_PARTITIONS, Subscription, TopicPartitions

CONSUMER: Final = "consumer"
"""The protocol type of consumer groups; Connect and others have their own."""

STABLE: Final = "Stable"
EMPTY_STATES: Final = frozenset({"Empty", "Dead"})


class DescribedMember(Protocol):
    """What kafka-python's DescribeGroups answer says of one member."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member; `subscription` is None while the group rebalances, and `unreadable` says why bytes made no sense."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    subscription: Subscription | None
    assigned: TopicPartitions
    unreadable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One look at a group. `protocol` is the chosen assignor name, empty unless Stable."""

    name: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberView, ...]

    @property
    def stable(self) -> bool:
        """Whether everybody has an assignment, so that metadata is shown."""
        return self.state == STABLE


def view_member(described: DescribedMember, *, consumer: bool) -> MemberView:
    """One member, decoded where the group speaks the consumer protocol."""
    subscription: Subscription | None = None
    assigned = NO_PARTITIONS
    unreadable = None
    if consumer and described.member_metadata:
        try:
            subscription = decode_subscription(bytes(described.member_metadata))
        except ProtocolError as error:
            unreadable = f"subscription: {error}"
    if consumer and described.member_assignment:
        try:
            assigned = decode_assignment(bytes(described.member_assignment)).partitions
        except ProtocolError as error:
            unreadable = "; ".join(filter(None, (unreadable, f"assignment: {error}")))
    return MemberView(
        id=described.member_id,
        instance_id=described.group_instance_id or None,
        client_id=described.client_id,
        client_host=described.client_host.rpartition("/")[2],  # Java's InetAddress: NAME/ADDRESS, the name often empty
        subscription=subscription,
        assigned=assigned,
        unreadable=unreadable,
    )


def endangers(group: GroupView) -> bool:
    """Whether the group's own leader may fail on a member without topics.

    kafka-python 3's roundrobin raises KeyError as soon as it meets one. Its members send subscription v0, as
    aiokafka's do, whose roundrobin is sound; from outside the two cannot be told apart.
    """
    return group.protocol == "roundrobin" and any(
        member.subscription is not None and member.subscription.version == 0 for member in group.members
    )


def topics_of(subscriptions: Iterable[Subscription]) -> frozenset[str]:
    """Every topic that somebody subscribes to."""
    return frozenset(topic for subscription in subscriptions for topic in subscription.topics)
