"""A consumer group as its coordinator describes it: an immutable value, with members in the broker's order.

The order matters: when the leader leaves, the coordinator makes the first listed member the next leader. Metadata and
assignments are read leniently: a member whose bytes cannot be decoded is included with the reason, never dropped.

The coordinator keeps all subscriptions and assignments of a classic group in one record of `__consumer_offsets`, which
the leader's SyncGroup writes. Beyond `max.message.bytes` of that topic brokers answer all members with an unknown
error, at which Java's consumers end (KAFKA-3590). Sizes here are upper bounds of `GroupMetadataValue` version 3 with
its batch, uncompressed; a few hundred bytes more than brokers count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, Protocol

from samerack.protocol.consumer import decode_assignment, decode_subscription
from samerack.protocol.errors import ProtocolError
from samerack.protocol.values import Subscription, TopicPartitions, no_partitions

OFFSETS_TOPIC: Final = "__consumer_offsets"
LIMIT_KEY: Final = "max.message.bytes"
_RECORD_BYTES: Final = 256
"""For the batch's header (61), the record's lengths, and the fields of the group that have a fixed size."""
_MEMBER_BYTES: Final = 40
"""For a member's timeouts and the lengths of its fields (24), and the zeros of an IPv6 address (13)."""
_NAMES_BYTES: Final = 160
"""For client id and host of a member that no description of the group has shown."""
GUEST_BYTES: Final = 512
"""For the agent's own member: a subscription without topics, and its names."""


def member_bytes(member_id: str, instance_id: str | None, client: tuple[str, str] | None, content: int) -> int:
    """Return what a member adds to the record.

    Args:
        member_id: Its id.
        instance_id: Its `group.instance.id`, or None.
        client: Its client id and host; None if they are not known.
        content: Bytes of its subscription and its assignment.
    """
    names = _NAMES_BYTES if client is None else _text(client[0]) + _text(client[1])
    return _MEMBER_BYTES + _text(member_id) + _text(instance_id or "") + names + content


def record_bytes(group: str, members: Iterable[int]) -> int:
    """Return the size of the record of a group whose members add so much each."""
    return _RECORD_BYTES + 2 * _text(group) + sum(members)


def too_large_reason(size: int, limit: int | None) -> str:
    """Return why a record of this size cannot be written, and what to set; empty if it can, or if that is not known."""
    if limit is None or size <= limit:
        return ""
    return (
        f"the group's record in {OFFSETS_TOPIC} would have {size} bytes, and {LIMIT_KEY} of that topic is {limit}: "
        "brokers would answer all members with an unknown error (KAFKA-3590); raise it, or use fewer members or topics"
    )


def _text(text: str) -> int:
    return len(text.encode())


CONSUMER: Final = "consumer"
"""The protocol type of consumer groups; Connect and others use other types."""

EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
"""Protocols whose members revoke all partitions before they join."""

STABLE: Final = "Stable"
FORMING_STATE: Final = "PreparingRebalance"
EMPTY_STATES: Final = frozenset({"Empty", "Dead"})

_MAX_REMEMBERED: Final = 1024
_MAX_REMEMBERED_BYTES: Final = 2048
"""How many decoded subscriptions with assignments are kept in memory, and how large one of them may be encoded."""


def member_key(member_id: str, instance_id: str | None) -> str:
    """Return what names a member in all generations: a static member keeps its instance id when it returns."""
    return instance_id or member_id


class DescribedGroup(Protocol):
    """One group in kafka-python's DescribeGroups response."""

    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: Sequence[DescribedMember]


class DescribedMember(Protocol):
    """One member in kafka-python's DescribeGroups response."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member as the coordinator describes it, with the address that the coordinator sees.

    `subscription` is None while the group rebalances. `assigned` are its partitions of the last generation that was
    synced; `has_assignment` is whether it has ever had any assignment, also an empty one. `unreadable`: why its bytes
    could not be decoded. `given_data` is the user data of its assignment. `record_bytes`: what it adds to the group's
    record at its coordinator.
    """

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    subscription: Subscription | None
    assigned: TopicPartitions
    unreadable: str | None = None
    has_assignment: bool = False
    given_data: bytes = b""
    record_bytes: int = 0

    @property
    def key(self) -> str:
        """See `member_key`."""
        return member_key(self.id, self.instance_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One description of a group. `protocol` is the chosen assignor name, empty unless Stable."""

    name: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberView, ...]

    @property
    def stable(self) -> bool:
        """Whether all members have an assignment, so that the description has their metadata."""
        return self.state == STABLE


def view_group(described: DescribedGroup) -> GroupView:
    """Return one group, its members in the broker's order."""
    consumer = described.protocol_type == CONSUMER
    return GroupView(
        name=described.group_id,
        state=described.group_state,
        protocol_type=described.protocol_type,
        protocol=described.protocol_data,
        members=tuple(view_member(member, consumer=consumer) for member in described.members),
    )


def view_member(described: DescribedMember, *, consumer: bool) -> MemberView:
    """Return one member, decoded if the group uses the consumer protocol."""
    metadata = bytes(described.member_metadata) if consumer else b""
    assignment = bytes(described.member_assignment) if consumer else b""
    is_small = len(metadata) + len(assignment) <= _MAX_REMEMBERED_BYTES
    decode = _decoded if is_small else _decoded.__wrapped__
    subscription, assigned, given_data, unreadable = decode(metadata, assignment)
    return MemberView(
        id=described.member_id,
        instance_id=described.group_instance_id or None,
        client_id=described.client_id,
        client_host=host_of(described.client_host),
        subscription=subscription,
        assigned=assigned,
        unreadable=unreadable,
        has_assignment=bool(described.member_assignment),
        given_data=given_data,
        record_bytes=member_bytes(
            described.member_id,
            described.group_instance_id,
            (described.client_id, described.client_host),
            len(described.member_metadata) + len(described.member_assignment),
        ),
    )


def host_of(client_host: str) -> str:
    """Return the address of a member's host, as the host itself prints it; what is none as it is.

    Brokers print Java's InetAddress: NAME/ADDRESS, the name often empty, and IPv6 addresses with all their zeros.
    """
    host = client_host.rpartition("/")[2]
    with suppress(ValueError):
        return str(ip_address(host)) if ":" in host else host
    return host


@lru_cache(maxsize=_MAX_REMEMBERED)
def _decoded(metadata: bytes, assignment: bytes) -> tuple[Subscription | None, TopicPartitions, bytes, str | None]:
    """Decode what one member of a consumer group sent and was assigned; either may be empty.

    Return subscription, partitions and user data of the assignment, and why any of it cannot be read.
    Groups are described every second and hardly change: what is remembered is also the same object, which makes
    comparing two descriptions cheap.
    """
    subscription: Subscription | None = None
    assigned, given_data = no_partitions(), b""
    unreadable = None
    if metadata:
        try:
            subscription = decode_subscription(metadata)
        except ProtocolError as error:
            unreadable = f"subscription: {error}"
    if assignment:
        try:
            decoded = decode_assignment(assignment)
            assigned, given_data = decoded.partitions, decoded.user_data or b""
        except ProtocolError as error:
            unreadable = "; ".join(filter(None, (unreadable, f"assignment: {error}")))
    return subscription, assigned, given_data, unreadable


def endangers(group: GroupView) -> bool:
    """Return whether the group's own leader may fail on a member without topics.

    kafka-python 3's roundrobin raises KeyError for such a member. Its members send subscription v0, as do those of
    aiokafka, whose roundrobin is sound; the two look the same from outside. Agents send v0 as well.
    """
    return group.protocol == "roundrobin" and any(
        member.subscription is not None and member.subscription.version == 0 and member.subscription.topics
        for member in group.members
    )


def is_agent(member: MemberView, client_id: str) -> bool:
    """Return whether a member, other than the agent that asks, seems to be an agent.

    Agents are static members without topics; `client_id` is their `client.id`.
    """
    topics = member.subscription is not None and bool(member.subscription.topics)
    return member.client_id == client_id and member.instance_id is not None and not topics


def no_room_reason(consumers: int, max_size: int | None) -> str:
    """Return why an agent must not be in a group with this number of consumers, present or expected; empty if it may.

    One more consumer must fit beside it, as the brokers refuse members beyond `group.max.size` (KIP-389), which ends
    them. None is a limit that is not known.
    """
    if max_size is None or consumers + 2 <= max_size:
        return ""
    return (
        f"group.max.size of the brokers is {max_size}: {consumers} current or expected consumers leave no room for an "
        f"agent and one more consumer; set it to {consumers + 2} or more"
    )


def topics_of(subscribed: Iterable[Collection[str]]) -> frozenset[str]:
    """Return all topics that members subscribe to; list that are one object are read once."""
    lists = {id(topics): topics for topics in subscribed}
    return frozenset(topic for topics in lists.values() for topic in topics)
