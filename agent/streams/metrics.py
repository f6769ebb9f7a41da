"""Counters of the plans for Kafka Streams applications; gauges are in `agent.streams.reporter`."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
FAILURES: Final = {
    HTTPStatus.BAD_REQUEST: "question",
    HTTPStatus.UNPROCESSABLE_ENTITY: "plan",
    HTTPStatus.SERVICE_UNAVAILABLE: "busy",
    HTTPStatus.GATEWAY_TIMEOUT: "late",
}
"""Kinds of failures by status of the answer; `internal` for all others."""


class StreamsMetrics:
    """Everything that is counted of Streams applications; safe to call from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Make the families; series begin with the first question of an application."""
        counter = partial(Counter, registry=registry)
        self._plans = counter(
            "samerack_streams_plans_total",
            "Plans sent to Kafka Streams applications, by assignor.",
            ["application", "assignor"],
        )
        self._followups = counter(
            "samerack_streams_followups_total", "Plans that requested a follow-up rebalance.", ["application"]
        )
        self._failures = counter(
            "samerack_streams_failures_total",
            "Requests of applications that got no plan, by kind.",
            ["application", "kind"],
        )
        self._fallbacks = counter(
            "samerack_streams_fallbacks_total", "Rebalances that an application's fall-back planned.", ["application"]
        )
        self._rejections = counter(
            "samerack_streams_rejections_total",
            "Plans that Kafka Streams rejected, by KIP-924's error.",
            ["application", "error"],
        )
        self._seconds = Histogram(
            "samerack_streams_plan_seconds",
            "Time from a request to its plan, while the application waits.",
            ["application"],
            buckets=_SECONDS,
            registry=registry,
        )

    def expect(self, application: str) -> None:
        """Show an application with its counters at 0: without that 0 a rate misses the first event."""
        self._followups.labels(application)
        self._fallbacks.labels(application)
        for kind in (*FAILURES.values(), "internal"):
            self._failures.labels(application, kind)

    def planned(self, application: str, assignor: str, seconds: float, *, is_followed: bool) -> None:
        """Count a plan that was sent."""
        self.expect(application)
        self._plans.labels(application, assignor).inc()
        self._seconds.labels(application).observe(seconds)
        self._followups.labels(application).inc(int(is_followed))

    def failed(self, application: str, status: HTTPStatus) -> None:
        """Count a question without a plan, by the status of its answer."""
        self.expect(application)
        self._failures.labels(application, FAILURES.get(status, "internal")).inc()

    def fell_back(self, application: str) -> None:
        """Count a rebalance that the application's own fall-back planned."""
        self.expect(application)
        self._fallbacks.labels(application).inc()

    def rejected(self, application: str, error: str) -> None:
        """Count a plan that Kafka Streams rejected."""
        self._rejections.labels(application, error).inc()

    def forget(self, application: str) -> None:
        """End the series of an application."""
        counters = (self._plans, self._followups, self._failures, self._fallbacks, self._rejections)
        for family in (*counters, self._seconds):
            family.remove_by_labels({"application": application})
