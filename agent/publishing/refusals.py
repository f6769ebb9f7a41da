"""What Kafka's errors mean for publishing: why a topic is refused, for how long to pause, and what an operator does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from samerack.agent.publishing.metrics import TopicRefusal
from samerack.traffic.snapshot import Gap

REFUSED_SECONDS: Final = 30.0
"""An operator has to act: trying more often only fills the brokers' logs."""
FAILING_SECONDS: Final = 5.0
"""The error may pass by itself."""

_NOT_ALLOWED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_MISSING: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's names
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a topic takes no records at the moment, and the cure."""

    topic: str
    why: TopicRefusal
    reason: str
    cure: str

    @property
    def gap(self) -> Gap:
        """The trouble as a gap in the agent's report."""
        refused = self.why is TopicRefusal.NOT_ALLOWED
        return Gap(what="publishing", where=self.topic, refused=refused, reason=self.reason, consequence=self.cure)

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next attempt."""
        return FAILING_SECONDS if self.why is TopicRefusal.FAILING else REFUSED_SECONDS


def kafka_error(exception: KafkaException) -> KafkaError:
    """Return the error that an exception of confluent-kafka carries."""
    found: KafkaError = exception.args[0]
    return found


def trouble_of(error: KafkaError, topic: str, *, bootstrap: str) -> Trouble:
    """Return what an error means for a topic."""
    code = error.code()
    if code in _NOT_ALLOWED:
        why = TopicRefusal.NOT_ALLOWED
        cure = (
            f"allow WRITE on the topic: kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal "
            f"User:NAME --operation Write --topic {topic}"
        )
    elif code in _MISSING:
        why = TopicRefusal.MISSING
        cure = (
            f"create it: kafka-topics.sh --bootstrap-server {bootstrap} --create --topic {topic} --partitions 6; "
            "or let publishing.create_topics do so"
        )
    else:
        why = TopicRefusal.FAILING
        cure = (
            "records wait; check the topic, and bootstrap.servers and security.protocol in kafka and publishing.kafka"
        )
    return Trouble(topic=topic, why=why, reason=error.name(), cure=cure)
