"""Reports plans of Kafka Streams applications, and what came of them, to events, metrics, status and log."""

from __future__ import annotations

from dataclasses import replace

import structlog

from samerack.agent.streams.board import StreamsBoard
from samerack.agent.streams.context import NoPlanError
from samerack.agent.streams.figures import Summary, planned_text
from samerack.agent.streams.metrics import StreamsMetrics
from samerack.agent.streams.outcome import Computed
from samerack.events import EventLog

log = structlog.get_logger("streams")


class StreamsReporter:
    """Any thread may call it."""

    def __init__(self, *, events: EventLog, metrics: StreamsMetrics, board: StreamsBoard) -> None:
        """Keep where to report to."""
        self._events = events
        self._metrics = metrics
        self.board = board

    def planned(self, figures: Summary, seconds: float) -> None:
        """Report a plan that is sent; event and log have those warnings that the plan before it had not."""
        name = figures.application
        last = self.board.last_plan(name)
        known = last.warnings if last is not None else ()
        detail = planned_text(replace(figures, warnings=tuple(one for one in figures.warnings if one not in known)))
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
