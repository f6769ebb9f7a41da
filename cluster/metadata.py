"""Describes brokers and topics once: racks, leaders, replicas and in-sync replicas, as a ClusterView."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from samerack.cluster.admin import REQUEST_SECONDS, Admin, error_text
from samerack.cluster.view import NO_LEADER, ClusterView, NoRack, PartitionView, Rack
from samerack.common.errors import AgentError


def look(admin: Admin, topics: Collection[str]) -> ClusterView:
    """Polls all brokers and these topics once; distinguishes absent topics from those that may not be described.

    Raises:
        RefusedError: TLS or SASL failed.
        AgentError: The cluster did not answer.
    """
    try:
        cluster = admin.answer(admin.describe_cluster(request_timeout=REQUEST_SECONDS))
        brokers: dict[int, Rack] = {node.id: node.rack or NoRack.UNSET for node in cluster.nodes}
        views: dict[str, tuple[PartitionView, ...]] = {}
        refused: set[str] = set()
        if topics:
            answers = admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_SECONDS)
            for topic, answer in answers.items():
                try:
                    views[topic] = _partitions(admin.answer(answer))
                except KafkaException as error:
                    if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        refused.add(topic)
                    elif error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
    except (KafkaException, TimeoutError) as error:
        raise AgentError(f"kafka: metadata: {error_text(error)}") from error
    absent = frozenset(topics) - views.keys() - refused
    return ClusterView(brokers=brokers, topics=views, absent=absent, refused=frozenset(refused))


def _partitions(described: Any) -> tuple[PartitionView, ...]:
    return tuple(
        PartitionView(
            leader=partition.leader.id if partition.leader is not None else NO_LEADER,
            replicas=tuple(node.id for node in partition.replicas),
            in_sync=tuple(node.id for node in partition.isr),
        )
        for partition in sorted(described.partitions, key=lambda partition: partition.id)
    )
