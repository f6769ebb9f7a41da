"""Reports plans of Kafka Streams applications, and what came of them, to events, metrics, status and log."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from threading import Lock
from typing import Any, Final

import structlog
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from samerack.agent.group_status import gauges
from samerack.agent.streams.context import MAX_NAME, MAX_TEXT, NoPlanError
from samerack.agent.streams.figures import Summary, planned_text
from samerack.agent.streams.metrics import StreamsMetrics
from samerack.assignors.streams.plugin import AssignmentError
from samerack.common.words import is_utf8, plain
from samerack.events import EventLog

ERRORS: Final = tuple(error.value for error in AssignmentError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """The outcome of one assignment.

    Attributes:
        plan: the id of the agent's plan; None if there was none.
        error: why Kafka Streams rejected it; NONE if it did not.
        fallback: why the application's own fall-back planned; "" if it did not.
    """

    application: str
    plan: str | None
    error: str
    fallback: str


def read_outcome(body: bytes) -> Computed:
    """Return the outcome in a body of `POST /v1/streams/computed` (`onAssignmentComputed`).

    Raises:
        NoPlanError: It is not a plan.
    """
    try:
        given: Any = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or given.get("version") != 1:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, "expected an object with version 1")
    application = _name(given, "application")
    plan = None if given.get("plan") is None else _name(given, "plan")
    error, fallback = given.get("error"), given.get("fallback")
    if error not in ERRORS:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, f"error: expected one of {', '.join(ERRORS)}")
    if not isinstance(fallback, str | None):
        raise NoPlanError(HTTPStatus.BAD_REQUEST, "fallback: expected a string or null")
    return Computed(application=application, plan=plan, error=error, fallback=plain(fallback or "")[:MAX_TEXT])


def _name(given: dict[str, Any], key: str) -> str:
    name = given.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not is_utf8(name):
        raise NoPlanError(HTTPStatus.BAD_REQUEST, f"{key}: expected a name of at most {MAX_NAME} characters in UTF-8")
    return name


MAX_APPLICATIONS: Final = 100
"""Applications that are kept: any program on this machine may name some. Another one takes the place of the one that
was idle for the longest time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsStatus:
    """What the agent knows of an application that asked for plans.

    It is replaced as a whole, so that a scrape never shows half of an update.

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
        """Yield the gauges of the last plans, without those that are known not to be in use."""
        plans = {one.application: one.planned for one in self.all() if one.planned is not None and not one.trouble}
        yield from gauges(_GAUGES, "application", plans)


_GAUGES: Final = (
    ("samerack_streams_tasks", "Tasks of the Kafka Streams application in this agent's last plan.", "tasks"),
    ("samerack_streams_clients", "Kafka Streams clients (processes) in this agent's last plan.", "clients"),
    (
        "samerack_streams_cross_rack_sources",
        "Source partitions that active tasks read from another rack by this agent's last plan.",
        "sources_after",
    ),
    (
        "samerack_streams_cross_rack_changelogs",
        "Changelog partitions that standbys and warm-ups read from another rack by this agent's last plan.",
        "changelogs_after",
    ),
    ("samerack_streams_standbys", "Standby tasks in this agent's last plan, with warm-ups.", "standbys"),
    ("samerack_streams_warmups", "Warm-ups in this agent's last plan: standbys beyond the number set.", "warmups"),
)


log = structlog.get_logger("streams")


class StreamsReporter:
    """Any thread may call it."""

    def __init__(self, *, events: EventLog, metrics: StreamsMetrics, board: StreamsBoard) -> None:
        self._events = events
        self._metrics = metrics
        self.board = board

    def planned(self, figures: Summary, seconds: float) -> None:
        """Report a plan that is sent; event and log have those warnings that the plan before it had not."""
        name = figures.application
        last = self.board.last_plan(name)
        known = last.warnings if last is not None else ()
        detail = planned_text(
            replace(figures, warnings=tuple(warning for warning in figures.warnings if warning not in known))
        )
        event = self._events.add(
            "streams-plan",
            name,
            action="planned",
            seconds=seconds,
            members=figures.clients,
            partitions=figures.sources,
            moved=figures.moved,
            share_before=figures.share_before,
            share_after=figures.share_after,
            assignor=figures.assignor,
            detail=detail,
        )
        self._forget(self.board.planned(figures, at=event.at, seconds=seconds))
        self._metrics.planned(name, figures.assignor, seconds, is_followed=figures.followup_ms is not None)
        log.info("streams-plan", application=name, plan=figures.plan, assignor=figures.assignor, detail=event.detail)

    def failed(self, application: str, error: NoPlanError) -> None:
        """Report a question without a plan."""
        self._events.add("streams-plan", application, action="failed", failure=str(error))
        self._forget(self.board.failed(application, str(error)))
        self._metrics.failed(application, error.status)
        log.warning("streams-no-plan", application=application, status=error.status, reason=str(error))

    def computed(self, outcome: Computed) -> None:
        """Report what an application made of a plan; one that was used is counted, and no event."""
        name, reason = outcome.application, outcome.fallback or outcome.error
        if not outcome.fallback and outcome.error == "NONE":
            if outcome.plan is not None:
                self.board.used(name)
            return
        action = "fell-back" if outcome.fallback else "rejected"
        self._events.add("streams-plan", name, action=action, reason=reason)
        if outcome.fallback:
            self._forget(self.board.fell_back(name, reason))
            self._metrics.fell_back(name)
        else:
            self._forget(self.board.rejected(name, reason))
            self._metrics.rejected(name, reason)
        log.warning("streams-plan-not-used", application=name, plan=outcome.plan, action=action, reason=reason)

    def not_passed_on(self, application: str, plan: str, error: NoPlanError) -> None:
        """Log that a class of the user did not get, or did not handle, the outcome of its plan."""
        log.warning("streams-outcome-not-passed-on", application=application, plan=plan, reason=str(error))

    def not_started(self, application: str, error: NoPlanError) -> None:
        """Log that the process of an application did not start with the agent; its first question tries again."""
        log.warning("streams-process-not-started", application=application, reason=str(error))

    def _forget(self, application: str | None) -> None:
        if application is not None:
            self._metrics.forget(application)
