"""Assignors for kafka-python's KafkaConsumer (KIP-54, KIP-429, KIP-881).

    KafkaConsumer(..., client_rack="a", partition_assignment_strategy=[assignor("cooperative-sticky", rack="a")])

What must not enter: planning; it is the same for all clients (`plugins.planning`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol

from assignors.consumer.registry import Options
from plugins.planning import EAGER, NOTHING, Owned, Replicas, Wishes, plan, subscription_of
from protocol.consumer import decode_subscription
from protocol.model import from_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def assignor(
    name: str = "cooperative-sticky", *, rack: str | None = None, max_skew: int = 0, follower_fetching: bool = True
) -> Assignor:
    """An assignor for `partition_assignment_strategy`; one for each consumer, since it remembers what that one owns.

    Args:
        name: `range`, `roundrobin`, `sticky` and `cooperative-sticky` are understood by the clients of all languages;
            `range-optimal` keeps co-partitioned topics together at the least cross-rack cost.
        rack: rack of the consumer, as in its `client_rack`.
        max_skew: partitions beyond a fair share that a member may get, for locality; 0 keeps loads even.
        follower_fetching: whether brokers let members read from replicas of their rack (KIP-392).

    Raises:
        AssignmentError: there is no such assignor.
    """
    options = Options(max_skew=max_skew)
    return Assignor(Wishes(name=name, rack=rack, options=options, follower_fetching=follower_fetching))


class Assignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no annotations
    """An assignor of one consumer; made by `assignor`."""

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._owned = NOTHING

    @property
    def name(self) -> str:
        """Protocol name."""
        return self._wishes.name

    def supported_protocols(self) -> list[Any]:
        """Whether members rebalance incrementally (KIP-429) is a matter of the name."""
        return [RebalanceProtocol.EAGER if self.name in EAGER else RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> bytes:
        """What the consumer sends when it joins."""
        return subscription_of(self._wishes, topics, self._owned)

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, bytes]:
        """The plan of the group that the consumer leads.

        Args:
            cluster: kafka-python's metadata.
            members: what the broker answered, their subscriptions decoded by kafka-python.

        Raises:
            AssignmentError: there is no plan that may be sent.
        """
        sent = [
            (member.member_id, member.group_instance_id, decode_subscription(member.metadata.encode()))
            for member in members
        ]
        topics = {topic for _, _, subscription in sent for topic in subscription.topics}
        found = {topic: _replicas(cluster, topic) for topic in topics}
        return plan(self._wishes, sent, {topic: replicas for topic, replicas in found.items() if replicas is not None})

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remember what the consumer got."""
        pairs = [(partition.topic, partition.partition) for partition in assignment.partitions()]
        self._owned = Owned(partitions=from_pairs(pairs), generation=generation)


def _replicas(cluster: Any, topic: str) -> Replicas | None:
    """Racks of the replicas of each partition, the leader's first; None where the topic is not known."""
    partitions = cluster._partitions.get(topic)  # noqa: SLF001 - no public method tells of replicas
    if not partitions:
        return None
    racks = {broker.node_id: broker.rack for broker in cluster.brokers()}
    result: list[tuple[str | None, ...]] = []
    for number in range(max(partitions) + 1):
        found = partitions.get(number)
        replicas = [] if found is None else sorted(found.replica_nodes, key=lambda node: node != found.leader_id)
        result.append(tuple(racks.get(node) for node in replicas))
    return tuple(result)
