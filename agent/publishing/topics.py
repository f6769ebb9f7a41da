"""Which topics take records: asks the brokers for each topic, and pauses for those that refuse.

A topic is open once the brokers have described it, until a record fails. After a pause it is asked for again. Kafka's
errors say why a topic is refused, for how long to pause, and what an operator does. One thread drives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from samerack.agent.publishing.metrics import PublishingMetrics, TopicRefusal
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
        cure = f"create it: kafka-topics.sh --bootstrap-server {bootstrap} --create --topic {topic} --partitions 6"
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


log = structlog.get_logger("publishing")

_ASK_SECONDS: Final = 2.0
"""Longest wait for a response, so that the agent stops within its five seconds."""
_OPEN: Final = float("inf")


class TopicAvailability:
    """Whether each topic takes records: not asked for yet, open, or refused until a time."""

    def __init__(
        self,
        topics: Iterable[str],
        *,
        config: dict[str, Any],
        metrics: PublishingMetrics,
        clock: Callable[[], float],
    ) -> None:
        """Start with topics that are not asked for yet; `config` is that of their producer."""
        self.troubles: tuple[Trouble, ...] = ()
        """Why topics refuse at the moment."""
        self._config = config
        self._metrics = metrics
        self._clock = clock
        self._again: dict[str, float] = dict.fromkeys(topics, float("-inf"))  # when to ask, or _OPEN

    @property
    def first_retry(self) -> float:
        """When the first topic may be asked for again."""
        return min(self._again.values())

    def refuses(self, topic: str) -> bool:
        """Return whether the topic refused the last record or request."""
        return any(trouble.topic == topic for trouble in self.troubles)

    def is_open(self, topic: str, producer: Any) -> bool:
        """Return whether records may be sent: the producer has found the topic, and it does not refuse."""
        again = self._again[topic]
        if again == _OPEN:
            return True
        if self._clock() < again:
            return False
        error = _ask(topic, producer)
        if error is not None:
            self.refuse(topic, error)
            return False
        self._again[topic] = _OPEN
        if any(trouble.topic == topic and trouble.is_of_connections for trouble in self.troubles):
            self.accept(topic)
        return True

    def retry(self) -> None:
        """Ask for topics that refuse at once: the producer is another one."""
        self._again = {topic: again if again == _OPEN else float("-inf") for topic, again in self._again.items()}

    def refuse(self, topic: str, error: KafkaError) -> None:
        """Pause for a topic; logged once, until something else is wrong.

        While no broker accepts the agent, that none answers is no other trouble.
        """
        trouble = trouble_of(error, topic, bootstrap=str(self._config.get("bootstrap.servers", "")))
        former = next((one for one in self.troubles if one.topic == topic), trouble)
        if former.why is TopicRefusal.NOT_ACCEPTED and trouble.is_of_connections:
            trouble = former
        self._again[topic] = self._clock() + trouble.pause_seconds
        if trouble not in self.troubles:
            log.warning("publishing-refused", topic=topic, reason=trouble.reason, cure=trouble.cure)
        self._metrics.refused(topic, trouble.why)
        self.troubles = (*(one for one in self.troubles if one.topic != topic), trouble)

    def accept(self, topic: str) -> None:
        """End the trouble of a topic that took a record."""
        if self.refuses(topic):
            self.troubles = tuple(trouble for trouble in self.troubles if trouble.topic != topic)
            self._metrics.refused(topic, None)
            log.info("publishing-again", topic=topic)


def _ask(topic: str, producer: Any) -> KafkaError | None:
    """Return the brokers' error for the topic, if any."""
    try:
        found = producer.list_topics(topic, timeout=_ASK_SECONDS).topics
    except KafkaException as error:
        return kafka_error(error)
    answer: KafkaError | None = found[topic].error
    return answer
