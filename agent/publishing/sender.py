"""The sender: gives waiting records of the outbox to a producer, and puts back those that failed.

librdkafka gets few records at a time and never times them out, so that it orders and retries without duplicates, while
the rest waits where it can be counted and dropped. A topic that refuses is tried again with one record after a pause.
The producer is replaced after a fatal error, and when a file that its settings name was, since librdkafka reads each
only once; what had been in flight is sent again with the same ids. `topics` knows which topics take records. One thread
drives it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from samerack.agent.publishing.metrics import DropReason, PublishingMetrics, TopicRefusal
from samerack.agent.publishing.outbox import Kind, Outbox, OutgoingRecord
from samerack.agent.publishing.topics import REFUSED_SECONDS, TopicAvailability, Trouble, kafka_error, why_of
from samerack.auth.identities import TokenError
from samerack.auth.kafka_config import files_of, for_librdkafka, get_token, nearest, over
from samerack.common.errors import RefusedError, SettingsError
from samerack.common.files import FileVersion, file_version

log = structlog.get_logger("publishing")

MAX_IN_FLIGHT: Final = 5_000
"""Most records of a kind that librdkafka has at a time."""
_LAST_TURN_SECONDS: Final = 0.02
_FLUSH_SECONDS: Final = 1.0
"""What is in flight may arrive for this time before its producer is replaced."""
_FILES_SECONDS: Final = 2.0
"""How often the files are checked."""
_DOWN: Final = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE})  # noqa: SLF001 - librdkafka's names
_DISCARDED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - librdkafka's names
"""Of records that librdkafka discards after a fatal error, at times before `poll` raises that error."""

Make = Callable[[dict[str, Any]], Any]
"""Makes a producer from librdkafka's settings."""


def producer_config(kafka: Mapping[str, str], own: Mapping[str, str]) -> dict[str, Any]:
    """Merge defaults for such records, the agent's settings, and the producer's own; the later win.

    Raises:
        SettingsError: Together they are invalid.
    """
    return {
        "compression.type": "zstd",
        "linger.ms": "50",
        "partitioner": "murmur2_random",  # as Java's
        "log_level": "0",  # delivery reports have what matters
        **for_librdkafka(over({**kafka, "message.timeout.ms": "0"}, own)),
        "enable.idempotence": "true",
    }


class Sender:
    """Sends the records of an outbox to their topics."""

    def __init__(  # noqa: PLR0913 - all named
        self,
        config: Mapping[str, Any],
        *,
        topics: Mapping[Kind, str],
        outbox: Outbox,
        metrics: PublishingMetrics,
        make: Make = Producer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a producer with librdkafka's settings; the first turn asks for topics.

        Raises:
            SettingsError: librdkafka refuses a setting.
            RefusedError: It needs a token, and none is available.
        """
        self._config = dict(config)
        self._topics = dict(topics)
        self._outbox = outbox
        self._metrics = metrics
        self._make = make
        self._clock = clock
        self._life = 0
        self._fatal: KafkaError | None = None
        self._availability = TopicAvailability(topics.values(), config=self._config, metrics=metrics, clock=clock)
        self._down = False
        self._refusal: KafkaError | None = None
        """Why a broker does not accept the agent, since the last record that arrived."""
        self._files = files_of(self._config)
        self._opened_at = self._checked_at = clock()
        self._opened_with: tuple[FileVersion | None, ...] = ()
        self._unusable = ""
        self._alone: set[int] = set()
        self._too_large: set[str] = set()
        try:
            self._producer: Any = self._opened(self._life)
        except TokenError as error:
            raise RefusedError(f"publishing.kafka: {error}") from None
        except KafkaException as error:
            reason = " ".join(error.args[0].str().split())
            key = reason.rpartition('"')[0].rpartition('"')[2]
            raise SettingsError(
                f"publishing.kafka: {reason}{nearest(key, 'publishing.kafka') if key else ''}"
            ) from None

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """Why topics take no records at the moment."""
        return self._availability.troubles

    def turn(self) -> None:
        """Handle delivery reports, and send what may be sent; does not block once topics are known."""
        if self._producer is None and not self._reopened():
            return
        self._renew()
        self._poll(0)
        for kind, topic in self._topics.items():
            if self._fatal is None and self._availability.is_open(topic, self._producer):
                self._send(kind, topic)
        if self._fatal is not None:
            self._poll(0)  # it raises the reason; a record's error only says that there is one
            self._give_up(self._fatal)
        for kind in self._topics:
            self._metrics.buffered.labels(kind.value).set(self._outbox.count(kind))
        self._metrics.buffered_bytes.set(self._outbox.bytes)

    def close(self, seconds: float) -> None:
        """Send what is left within `seconds`, and count what was not acknowledged."""
        until = self._clock() + seconds
        while self._clock() < until and self._may_empty():
            self.turn()
            if self._producer is not None:
                self._poll(_LAST_TURN_SECONDS)
        self._life += 1  # purged records were not refused
        if self._producer is not None:
            self._producer.purge()
        left = self._outbox.empty()
        for record in left:
            self._metrics.dropped.labels(record.kind.value, DropReason.STOPPED.value).inc()
        if left:
            log.warning("records-lost", records=len(left), reason="Kafka did not take them before the end")

    def _may_empty(self) -> bool:
        """Return whether anything is left for a topic that does not refuse."""
        return any(
            self._outbox.count(kind) for kind, topic in self._topics.items() if not self._availability.refuses(topic)
        )

    # records

    def _send(self, kind: Kind, topic: str) -> None:
        if self._alone:
            self._alone &= self._outbox.numbers()  # without those dropped meanwhile
        one_record = bool(self._alone) or self._availability.refuses(topic)
        for record in self._outbox.take(kind, 1 if one_record else MAX_IN_FLIGHT):
            try:
                self._producer.produce(
                    topic, record.value, key=record.key, on_delivery=partial(self._delivered, record, self._life)
                )
            except BufferError:
                self._outbox.put_back(record)
            except KafkaException as error:
                self._failed(record, kafka_error(error), alone=True)

    def _delivered(self, record: OutgoingRecord, life: int, error: KafkaError | None, _message: object) -> None:
        """Handle a delivery report; one from a replaced producer comes too late and is ignored."""
        if life != self._life:
            return
        if error is not None:
            self._failed(record, error, alone=record.number in self._alone)
            return
        self._outbox.done(record)
        self._alone.discard(record.number)
        self._metrics.published.labels(record.kind.value).inc()
        self._down, self._refusal = False, None
        self._availability.accept(record.topic)

    def _failed(self, record: OutgoingRecord, error: KafkaError, *, alone: bool) -> None:
        """Handle a failed record; `alone`: no other record can have made the request too large."""
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and alone:
            self._drop(record)
            return
        self._outbox.put_back(record)
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._alone.add(record.number)
        elif error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - librdkafka's name
            self._fatal = self._fatal or error
        elif error.code() not in _DISCARDED:
            self._availability.refuse(record.topic, error)

    def _drop(self, record: OutgoingRecord) -> None:
        """Drop a record that is too large for the producer or for the topic; logged once for each group."""
        self._outbox.done(record)
        self._alone.discard(record.number)
        self._metrics.dropped.labels(record.kind.value, DropReason.TOO_LARGE.value).inc()
        if record.group not in self._too_large:
            self._too_large.add(record.group)
            log.warning(
                "record-too-large",
                group=record.group,
                topic=record.topic,
                bytes=record.size,
                cure="raise message.max.bytes in publishing.kafka, and max.message.bytes of the topic",
            )

    # producers

    def _opened(self, life: int) -> Any:
        get_token(self._config)
        versions = tuple(map(file_version, self._files))  # of before librdkafka reads them
        producer = self._make({**self._config, "error_cb": partial(self._erred, life)})
        self._opened_at, self._opened_with, self._unusable = self._clock(), versions, ""
        return producer

    def _renew(self) -> None:
        """Replace the producer if a file is another one, or brokers have not accepted this one for a while."""
        now = self._clock()
        if now - self._checked_at < _FILES_SECONDS:
            return
        self._checked_at = now
        is_refused = self._down and self._refusal is not None
        has_new_files = tuple(map(file_version, self._files)) != self._opened_with
        if not has_new_files and not (is_refused and now - self._opened_at >= REFUSED_SECONDS):
            return
        try:
            producer = self._opened(self._life + 1)
        except (TokenError, KafkaException) as error:  # such as a new certificate whose key is still the former one
            reason = str(error) if isinstance(error, TokenError) else kafka_error(error).str()
            if reason != self._unusable:
                self._unusable = reason
                log.warning("files-unusable", reason=reason, consequence="the former connections stay")
            return
        if not is_refused:
            self._producer.flush(_FLUSH_SECONDS)
        if has_new_files:
            log.info("connects-anew", reason="files that the settings name have changed")
        self._discard()
        self._producer = producer
        self._availability.retry()

    def _poll(self, seconds: float) -> None:
        """Handle delivery reports; the producer raises its fatal error here."""
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._fatal = kafka_error(error)

    def _erred(self, life: int, error: KafkaError) -> None:
        """Handle an error of connections: where no broker is left and one refuses, that is why, whichever was first."""
        if life != self._life:
            return
        if why_of(error) is TopicRefusal.NOT_ACCEPTED:
            is_new, self._refusal = self._refusal is None, self._refusal or error
        elif error.code() in _DOWN:
            is_new, self._down = not self._down, True
        else:
            return
        if not is_new:
            return
        if self._down and self._refusal is not None:
            for topic in self._topics.values():
                self._availability.refuse(topic, self._refusal)
        elif not self.troubles:
            log.warning("brokers-unreachable", reason=error.str(), cure="records wait; check publishing.kafka")

    def _discard(self) -> None:
        """Discard this producer: what is in flight waits for the next one."""
        self._life += 1
        self._producer.purge()
        self._producer = self._fatal = self._refusal = None
        self._down = False
        self._outbox.put_all_back()
        self._metrics.replaced.inc()

    def _give_up(self, error: KafkaError) -> None:
        """Discard this producer, which cannot recover. All topics wait for the next one."""
        self._discard()
        for topic in self._topics.values():
            self._availability.refuse(topic, error)

    def _reopened(self) -> bool:
        """Open another producer once the pause is over; return whether it is open."""
        if self._clock() < self._availability.first_retry:
            return False
        try:
            self._producer = self._opened(self._life)
        except TokenError as error:
            for topic in self._topics.values():
                self._availability.refuse(topic, KafkaError(KafkaError._AUTHENTICATION, str(error)))  # noqa: SLF001 - librdkafka's name
            return False
        return True
