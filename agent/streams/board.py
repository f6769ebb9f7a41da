"""What the agent knows of each Streams application that asked for plans, and the gauges of it.

A status is immutable and replaced as a whole, so that a scrape never shows half of an update.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import Any, Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from samerack.agent.group_status import gauges
from samerack.agent.streams.figures import Summary

MAX_APPLICATIONS: Final = 100
"""Applications that are kept: any program on this machine may name some. Another one takes the place of the one that
was idle for the longest time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsStatus:
    """An application.

    Attributes:
        planned: its last plan; None if there was none yet.
        at: when it was made, in seconds since 1970.
        plans: plans that were sent to it.
        followups: plans that requested a follow-up rebalance.
        failures: questions without a plan.
        used: plans that it said it used.
        fallbacks: rebalances that its own fall-back planned, as far as it reported them.
        trouble: why the last question had no plan, or the last plan was not used; "" if it was.
    """

    application: str
    planned: Summary | None = None
    at: float | None = None
    seconds: float | None = None
    plans: int = 0
    followups: int = 0
    failures: int = 0
    used: int = 0
    fallbacks: int = 0
    trouble: str = ""


class StreamsBoard(Collector):
    """The status of all applications; any thread may read and write.

    What records something returns the application that made room for it, or None.
    """

    def __init__(self) -> None:
        self._statuses: OrderedDict[str, StreamsStatus] = OrderedDict()
        self._lock = Lock()

    def planned(self, figures: Summary, *, at: float, seconds: float) -> str | None:
        """Record a plan that was sent."""
        return self._change(
            figures.application,
            lambda status: replace(
                status,
                planned=figures,
                at=at,
                seconds=seconds,
                plans=status.plans + 1,
                followups=status.followups + (figures.followup_ms is not None),
                trouble="",
            ),
        )

    def failed(self, application: str, reason: str) -> str | None:
        """Record a question without a plan."""
        return self._change(application, lambda status: replace(status, failures=status.failures + 1, trouble=reason))

    def used(self, application: str) -> None:
        """Record that the application used a plan; one of an agent before this one is not known, and not counted."""
        with self._lock:
            if (status := self._statuses.get(application)) is not None:
                self._statuses[application] = replace(status, used=status.used + 1)

    def fell_back(self, application: str, cause: str) -> str | None:
        """Record that the application's own fall-back planned."""
        return self._change(
            application, lambda status: replace(status, fallbacks=status.fallbacks + 1, trouble=f"fell back: {cause}")
        )

    def rejected(self, application: str, error: str) -> str | None:
        """Record that the application rejected a plan."""
        return self._change(application, lambda status: replace(status, trouble=f"rejected: {error}"))

    def _change(self, application: str, change: Callable[[StreamsStatus], StreamsStatus]) -> str | None:
        with self._lock:
            status = self._statuses.get(application)
            self._statuses[application] = change(status or StreamsStatus(application=application))
            self._statuses.move_to_end(application)
            return self._statuses.popitem(last=False)[0] if len(self._statuses) > MAX_APPLICATIONS else None

    def last_plan(self, application: str) -> Summary | None:
        """Return an application's last plan, if there was one."""
        with self._lock:
            status = self._statuses.get(application)
            return status.planned if status is not None else None

    def all(self) -> tuple[StreamsStatus, ...]:
        """Return every application, sorted by name."""
        with self._lock:
            return tuple(status for _, status in sorted(self._statuses.items()))

    def to_json(self) -> list[dict[str, Any]]:
        """Return every application as `GET /v1/streams` shows it."""
        return [asdict(status) for status in self.all()]

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges of the last plans."""
        plans = {status.application: status.planned for status in self.all() if status.planned is not None}
        yield from gauges(_GAUGES, "application", plans)


_GAUGES: Final = (
    ("samerack_streams_tasks", "Tasks of the Kafka Streams application's last plan.", "tasks"),
    ("samerack_streams_clients", "Kafka Streams clients (processes) of the last plan.", "clients"),
    (
        "samerack_streams_cross_rack_sources",
        "Source partitions that active tasks read from another rack after the last plan.",
        "sources_after",
    ),
    (
        "samerack_streams_cross_rack_changelogs",
        "Changelog partitions that standbys and warm-ups read from another rack.",
        "changelogs_after",
    ),
    ("samerack_streams_standbys", "Standby tasks of the last plan, with warm-ups.", "standbys"),
    ("samerack_streams_warmups", "Warm-ups of the last plan: standbys beyond the configured number.", "warmups"),
)
