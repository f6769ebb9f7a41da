"""Metrics of events: how many happened, whether they are stored, how many were never written."""

from __future__ import annotations

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from samerack.events.event import Kind


class EventMetrics:
    """The counts of the event log and of the event writer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Create all series at 0: a rate misses the first event where no 0 came before it."""
        self._events = Counter("samerack_events", "Events, by kind.", ["kind"], registry=registry)
        for kind in get_args(Kind):
            self._events.labels(kind)
        self._stored = Gauge(
            "samerack_events_stored",
            "1 while events are written to a file.",
            registry=registry,
        )
        self._dropped = Counter(
            "samerack_events_dropped",
            "Events that were never written to the file.",
            registry=registry,
        )

    def happened(self, kind: Kind) -> None:
        """Count an event."""
        self._events.labels(kind).inc()

    def stored(self, *, succeeded: bool) -> None:
        """Set whether events are written."""
        self._stored.set(float(succeeded))

    def dropped(self) -> None:
        """Count an event that will never be written."""
        self._dropped.inc()
