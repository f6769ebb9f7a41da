"""Assignors for kafka-python's KafkaConsumer (KIP-54, KIP-429, KIP-881).

KafkaConsumer(..., client_rack="a", partition_assignment_strategy=[assignor("cooperative-sticky", rack="a")])
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.structs import TopicPartition

from samerack.plugins.planning import EAGER, Member, MemberOptions, Replicas, racks_of_replicas
from samerack.protocol.consumer import decode_subscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def assignor(name: str = "cooperative-sticky", **about: Unpack[MemberOptions]) -> _Assignor:
    """Make an assignor for `partition_assignment_strategy`; one per consumer, because it stores its owned partitions.

    Args:
        name: `range`, `roundrobin`, `sticky` and `cooperative-sticky` work with the clients of all languages;
            `range-optimal` keeps co-partitioned topics together at the least cross-rack cost.
        about: the consumer, by the names of `samerack.plugins.planning.MemberOptions`; `rack` is its rack.

    Raises:
        AssignmentError: there is no such assignor, or it does not regard loads.
    """
    return _Assignor(Member(name=name, **about))


class _Assignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no annotations
    """An assignor of one consumer; made by `assignor`."""

    def __init__(self, member: Member) -> None:
        self._member = member

    @property
    def name(self) -> str:
        """Returns the protocol name."""
        return self._member.name

    def supported_protocols(self) -> list[Any]:
        """Return the rebalance protocol, eager or cooperative (KIP-429), which depends on the name."""
        return [RebalanceProtocol.EAGER if self.name in EAGER else RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Return the subscription that the consumer sends in JoinGroup."""
        return self._member.subscription(topics)

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, bytes]:
        """Compute the plan of the group that the consumer leads.

        Args:
            cluster: kafka-python's metadata.
            members: members in the broker's answer, with subscriptions decoded by kafka-python.

        Raises:
            AssignmentError: there is no plan that may be sent.
        """
        sent = [
            (member.member_id, member.group_instance_id, decode_subscription(member.metadata.encode()))
            for member in members
        ]
        return self._member.plan(sent, partial(_replicas, cluster))

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Store the partitions that the consumer got, and the generation."""
        self._member.store(assignment.partitions(), generation)


def _replicas(cluster: Any, topic: str) -> Replicas | None:
    brokers = cluster.brokers()
    placed = {}
    for number in cluster.partitions_for_topic(topic) or ():
        partition = TopicPartition(topic, number)
        nodes = [broker.node_id for broker in brokers if cluster.is_replica_node(partition, broker.node_id)]
        placed[number] = cluster.leader_for_partition(partition), nodes
    return racks_of_replicas(placed, {broker.node_id: broker.rack for broker in brokers})
