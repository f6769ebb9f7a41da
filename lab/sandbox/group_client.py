"""Asks a group's coordinator, as tools do: for state and members, what their leader assigned, and offsets.

Neither what members record nor what an agent reports is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from lab.sandbox.members.lines import Partition

AGENT: Final = "samerack"
"""The agent's client id in groups, and by default its instance id."""
_OFFSETS_SECONDS: Final = 10.0


class GroupClient:
    """Asks the coordinator of one group; after a failed question with a new client."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._client = self.new()

    def new(self) -> AdminClient:
        """Return a new client, which has no cached coordinator."""
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200})

    def forget(self) -> None:
        """Ask for the coordinator again with the next question."""
        self._client = self.new()

    def describe(self, *, timeout: float) -> Any:
        """Return the group as its coordinator describes it, within these seconds.

        Raises:
            KafkaException: No coordinator answers.
        """
        try:
            return self._client.describe_consumer_groups([self._group], request_timeout=timeout)[self._group].result()
        except KafkaException:
            self.forget()  # librdkafka keeps asking the former coordinator
            raise

    # each with a new client, which gets an answer only while there is a coordinator; held until the answer is there

    def offsets(self) -> dict[Partition, int]:
        """Return the offsets that the coordinator has; partitions without any are left out."""
        client, asked = self.new(), [ConsumerGroupTopicPartitions(self._group)]
        answer = client.list_consumer_group_offsets(asked, request_timeout=_OFFSETS_SECONDS)[self._group].result()
        return {(one.topic, one.partition): one.offset for one in answer.topic_partitions if one.offset >= 0}

    def set_offsets(self, offsets: Mapping[Partition, int]) -> None:
        """Set offsets of the group, which must have no members.

        Raises:
            KafkaException: The coordinator refuses one; it may not know the topic yet.
        """
        wanted = [TopicPartition(*partition, at) for partition, at in sorted(offsets.items())]
        client, asked = self.new(), [ConsumerGroupTopicPartitions(self._group, wanted)]
        answer = client.alter_consumer_group_offsets(asked, request_timeout=_OFFSETS_SECONDS)[self._group].result()
        for one in answer.topic_partitions:
            if one.error is not None:
                raise KafkaException(one.error)

    def delete(self) -> None:
        """Delete the group, which must have no members, as `kafka-consumer-groups.sh --delete` does.

        Raises:
            KafkaException: The coordinator refuses.
        """
        client = self.new()
        client.delete_consumer_groups([self._group], request_timeout=_OFFSETS_SECONDS)[self._group].result()


def assigned(described: Any) -> dict[str, frozenset[Partition]] | None:
    """Return partitions by client id as the leader of a described group assigned them; None unless it is stable."""
    if described.state.name != "STABLE":
        return None
    return {
        member.client_id: frozenset((one.topic, one.partition) for one in member.assignment.topic_partitions)
        for member in described.members
        if member.client_id != AGENT
    }
