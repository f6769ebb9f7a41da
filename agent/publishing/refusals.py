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
_NOT_ACCEPTED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's names
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
_UNREACHABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001 - librdkafka's names
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)
_ALERT: Final = " alert "
"""In the text of a lost connection: with TLS 1.3 a refused certificate shows only after the handshake."""
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
        return FAILING_SECONDS if self.why in (TopicRefusal.FAILING, TopicRefusal.UNREACHABLE) else REFUSED_SECONDS

    @property
    def is_of_connections(self) -> bool:
        """Whether no broker is reached, or none accepts the agent, whatever the topic."""
        return self.why in (TopicRefusal.NOT_ACCEPTED, TopicRefusal.UNREACHABLE)


def kafka_error(exception: KafkaException) -> KafkaError:
    """Return the error that an exception of confluent-kafka carries."""
    found: KafkaError = exception.args[0]
    return found


def why_of(error: KafkaError) -> TopicRefusal:
    """Return which kind of failure an error is."""
    code = error.code()
    if code in _NOT_ACCEPTED or (code == KafkaError._TRANSPORT and _ALERT in error.str()):  # noqa: SLF001 - see above
        return TopicRefusal.NOT_ACCEPTED
    if code in _UNREACHABLE:
        return TopicRefusal.UNREACHABLE
    if code in _NOT_ALLOWED:
        return TopicRefusal.NOT_ALLOWED
    return TopicRefusal.MISSING if code in _MISSING else TopicRefusal.FAILING


def trouble_of(error: KafkaError, topic: str, *, bootstrap: str) -> Trouble:
    """Return what an error means for a topic."""
    why, reason = why_of(error), error.name()
    if why is TopicRefusal.NOT_ALLOWED:
        cure = (
            f"allow WRITE on the topic: kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal "
            f"User:NAME --operation Write --topic {topic}"
        )
    elif why is TopicRefusal.MISSING:
        cure = (
            f"create it: kafka-topics.sh --bootstrap-server {bootstrap} --create --topic {topic} --partitions 6; "
            "or let publishing.create_topics do so"
        )
    elif why is TopicRefusal.NOT_ACCEPTED:
        reason = " ".join(error.str().split())
        cure = "records wait; check certificate, key, authority and password in kafka and publishing.kafka"
    elif why is TopicRefusal.UNREACHABLE:
        cure = (
            "records wait; check that the brokers run, and bootstrap.servers and security.protocol in kafka and "
            "publishing.kafka"
        )
    else:
        cure = "records wait; check the topic"
    return Trouble(topic=topic, why=why, reason=reason, cure=cure)
