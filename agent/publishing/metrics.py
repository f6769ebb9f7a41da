"""Metrics of publishing: records that are acknowledged, dropped (and why) or waiting, and topics that refuse them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from samerack.agent.publishing.outbox import Kind


class DropReason(Enum):
    """Why a record was dropped; the value is the label in metrics."""

    BUFFER_FULL = "buffer-full"
    TOO_LARGE = "too-large"
    STOPPED = "stopped"


class TopicRefusal(Enum):
    """Why a topic takes no records at the moment; the value is the label in metrics."""

    NOT_ALLOWED = "not-allowed"
    MISSING = "missing"
    NOT_ACCEPTED = "not-accepted"
    UNREACHABLE = "unreachable"
    FAILING = "failing"


class PublishingMetrics:
    """The publishing thread's own metrics."""

    def __init__(self, registry: CollectorRegistry, topics: Iterable[str]) -> None:
        """Create all series at 0: a rate misses the first event where no 0 came before it."""
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.published = counter(
            "samerack_published_records", "Records that Kafka has acknowledged, by kind.", ["kind"]
        )
        self.dropped = counter(
            "samerack_dropped_records", "Records that will never be published, by kind and reason.", ["kind", "reason"]
        )
        self.buffered = gauge(
            "samerack_buffered_records", "Records that wait for Kafka to acknowledge them, by kind.", ["kind"]
        )
        self.buffered_bytes = gauge("samerack_buffered_record_bytes", "Bytes of the records that wait.")
        self._refused = gauge(
            "samerack_publishing_refused", "1 while a topic accepts no records, by reason.", ["topic", "reason"]
        )
        self.replaced = counter(
            "samerack_producers_replaced", "Producers that were replaced, after a fatal error or because files changed."
        )
        for kind in Kind:
            self.published.labels(kind.value)
            self.buffered.labels(kind.value)
            for reason in DropReason:
                self.dropped.labels(kind.value, reason.value)
        for topic in topics:
            self.refused(topic, None)

    def refused(self, topic: str, why: TopicRefusal | None) -> None:
        """Set why a topic takes no records, or that it takes them again (None)."""
        for refusal in TopicRefusal:
            self._refused.labels(topic, refusal.value).set(float(refusal is why))
