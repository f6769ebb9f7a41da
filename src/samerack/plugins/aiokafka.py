"""Assignors for aiokafka's AIOKafkaConsumer (KIP-54, KIP-881).

    AIOKafkaConsumer(..., client_rack="a", partition_assignment_strategy=[assignor("sticky", rack="a")])

aiokafka decodes subscriptions as version 0, without racks; creating an assignor replaces its decoder by one that also
keeps the bytes. aiokafka rebalances eagerly, so there is no `cooperative-sticky`.
"""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Unpack

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocol, ConsumerProtocolMemberMetadata

from samerack.assignors.problem import AssignmentError
from samerack.plugins.planning import EAGER, Member, MemberOptions, Replicas, racks_of_replicas
from samerack.protocol.consumer import decode_subscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class WholeSubscription(ConsumerProtocolMemberMetadata):
    """A subscription as aiokafka decodes it, with all of its bytes."""

    sent: bytes = b""

    @classmethod
    def decode(cls, data: BytesIO | bytes) -> Any:
        """Decode as aiokafka does, and keep the bytes."""
        raw = data if isinstance(data, bytes) else data.read()
        # aiokafka's own decoder makes the object, so that its other assignors get what they expect
        read: Any = ConsumerProtocolMemberMetadata.decode(raw)  # type: ignore[no-untyped-call,unused-ignore]
        read.sent = raw
        return read


def assignor(name: str = "sticky", **about: Unpack[MemberOptions]) -> _Assignor:
    """Make an assignor for `partition_assignment_strategy`; one per consumer, because it stores its owned partitions.

    Args:
        name: `range`, `roundrobin` and `sticky` work with the clients of all languages; `range-optimal` keeps
            co-partitioned topics together at the least cross-rack cost.
        about: the consumer, by the names of `samerack.plugins.planning.MemberOptions`; `rack` is its rack.

    Raises:
        AssignmentError: there is no such assignor, or it does not regard loads.
    """
    if name not in EAGER:
        raise AssignmentError(
            f"assignor {name!r} is not for aiokafka, which rebalances eagerly; {', '.join(EAGER)} are"
        )
    ConsumerProtocol.METADATA = WholeSubscription
    return _Assignor(Member(name=name, **about))


class _Assignor(AbstractPartitionAssignor):
    """An assignor of one consumer; made by `assignor`."""

    def __init__(self, member: Member) -> None:
        self._member = member

    @property
    def name(self) -> str:
        """Returns the protocol name."""
        return self._member.name

    def metadata(self, topics: Iterable[str]) -> Any:  # type: ignore[override]  # a method of one consumer, not a class's
        """Return the subscription that the consumer sends in JoinGroup."""
        return self._member.subscription(topics)

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> Any:  # type: ignore[override]  # see metadata
        """Compute the plan of the group that the consumer leads.

        Args:
            cluster: aiokafka's metadata.
            members: subscriptions by member id; aiokafka does not pass group instance ids on.

        Raises:
            AssignmentError: there is no plan that may be sent.
        """
        sent = [(member, None, decode_subscription(metadata.sent)) for member, metadata in members.items()]
        return self._member.plan(sent, partial(_replicas, cluster))

    def on_assignment(self, assignment: Any) -> None:  # type: ignore[override]  # see metadata
        """Store the partitions that the consumer got; aiokafka does not pass the generation."""
        self._member.store(assignment.partitions())


def _replicas(cluster: Any, topic: str) -> Replicas | None:
    partitions = cluster._partitions.get(topic, {})  # noqa: SLF001 - no public method returns the replicas
    placed = {number: (one.leader, one.replicas) for number, one in partitions.items()}
    return racks_of_replicas(placed, {broker.nodeId: broker.rack for broker in cluster.brokers()})
