"""Which topics take records: asks the brokers for each topic, creates missing ones, and pauses for those that refuse.

A topic is open once the brokers have described it, until a record fails. After a pause it is asked for again. One
thread drives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from samerack.agent.publishing.metrics import PublishingMetrics, TopicRefusal
from samerack.agent.publishing.refusals import Trouble, kafka_error, trouble_of

log = structlog.get_logger("publishing")

_ASK_SECONDS: Final = 2.0
"""Longest wait for a response, so that the agent stops within its five seconds."""
_BROKERS_DEFAULT: Final = -1
_OPEN: Final = float("inf")


class TopicAvailability:
    """Whether each topic takes records: not asked for yet, open, or refused until a time."""

    def __init__(
        self,
        topics: Iterable[str],
        *,
        config: dict[str, Any],
        create: bool,
        metrics: PublishingMetrics,
        clock: Callable[[], float],
    ) -> None:
        """Start with topics that are not asked for yet; by librdkafka's settings a client may create missing ones."""
        self.troubles: tuple[Trouble, ...] = ()
        """Why topics refuse at the moment."""
        self._config = config
        self._create = create
        self._metrics = metrics
        self._clock = clock
        self._again: dict[str, float] = dict.fromkeys(topics, float("-inf"))  # when to ask, or _OPEN

    @property
    def first_retry(self) -> float:
        """When the first topic may be asked for again."""
        return min(self._again.values())

    def refuses(self, topic: str) -> bool:
        """Return whether the topic refused the last record or request."""
        return any(one.topic == topic for one in self.troubles)

    def is_open(self, topic: str, producer: Any) -> bool:
        """Return whether records may be sent: the producer has found the topic, and it does not refuse."""
        again = self._again[topic]
        if again == _OPEN:
            return True
        if self._clock() < again:
            return False
        error = _ask(topic, producer)
        if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and self._create:
            error = self._create_topic(topic)
        if error is not None:
            self.refuse(topic, error)
            return False
        self._again[topic] = _OPEN
        if any(one.topic == topic and one.is_of_connections for one in self.troubles):
            self.accept(topic)
        return True

    def retry(self) -> None:
        """Ask for topics that refuse at once: the producer is another one."""
        self._again = {topic: again if again == _OPEN else float("-inf") for topic, again in self._again.items()}

    def _create_topic(self, topic: str) -> KafkaError | None:
        admin = AdminClient(self._config)  # a response needs its client until it arrives
        new = NewTopic(topic, num_partitions=_BROKERS_DEFAULT, replication_factor=_BROKERS_DEFAULT)
        try:
            admin.create_topics([new], request_timeout=_ASK_SECONDS)[topic].result()
        except KafkaException as error:
            if kafka_error(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                return kafka_error(error)
        log.info("topic-created", topic=topic)
        return None

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
            self.troubles = tuple(one for one in self.troubles if one.topic != topic)
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
