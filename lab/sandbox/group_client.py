"""Asks a group's coordinator: the group's state and members, and what their leader assigned.

Neither what members record nor what an agent reports is used.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lab.sandbox.members.lines import Partition

AGENT: Final = "samerack"
"""The agent's client id in groups, and by default its instance id."""


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
        """Return the group as its coordinator describes it, within so many seconds.

        Raises:
            KafkaException: No coordinator answers.
        """
        try:
            return self._client.describe_consumer_groups([self._group], request_timeout=timeout)[self._group].result()
        except KafkaException:
            self.forget()  # librdkafka keeps asking the former coordinator
            raise


def assigned(described: Any) -> dict[str, frozenset[Partition]] | None:
    """Return partitions by client id as the leader of a described group assigned them; None unless it is stable."""
    if described.state.name != "STABLE":
        return None
    return {
        member.client_id: frozenset((one.topic, one.partition) for one in member.assignment.topic_partitions)
        for member in described.members
        if member.client_id != AGENT
    }
