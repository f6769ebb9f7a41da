"""Metrics of events: how many happened, whether they are kept, what was never written."""

from __future__ import annotations

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from agent.events.model import Kind


class EventMetrics:
    """What the book and the keeper count."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """All series at 0: a rate misses the first event where no 0 came before it."""
        self._events = Counter("samerack_events", "What happened, by kind.", ["kind"], registry=registry)
        for kind in get_args(Kind):
            self._events.labels(kind)
        self._stored = Gauge(
            "samerack_events_stored",
            "1 while events are written to a file; 0 while they are in memory only.",
            registry=registry,
        )
        self._dropped = Counter(
            "samerack_events_dropped",
            "Events that were never written to the file, as too many waited for it.",
            registry=registry,
        )

    def happened(self, kind: Kind) -> None:
        """Something happened."""
        self._events.labels(kind).inc()

    def stored(self, *, well: bool) -> None:
        """Events are written, or are not."""
        self._stored.set(float(well))

    def dropped(self) -> None:
        """An event will never be written."""
        self._dropped.inc()
