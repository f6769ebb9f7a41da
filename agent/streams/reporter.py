"""Reports plans of Kafka Streams applications, and what came of them, to events, metrics, status and log."""

from __future__ import annotations

import structlog

from samerack.agent.streams.board import StreamsBoard
from samerack.agent.streams.figures import Summary
from samerack.agent.streams.metrics import StreamsMetrics
from samerack.agent.streams.outcome import Computed
from samerack.agent.streams.words import planned_text
from samerack.agent.streams.workers import NoPlanError
from samerack.events import EventLog

log = structlog.get_logger("streams")


class StreamsReporter:
    """Any thread may call it."""

    def __init__(self, *, events: EventLog, metrics: StreamsMetrics, board: StreamsBoard) -> None:
        """Keeps where to report to."""
        self._events = events
        self._metrics = metrics
        self.board = board

    def planned(self, figures: Summary, seconds: float) -> None:
        """Reports a plan that is sent."""
        name = figures.application
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
            detail=planned_text(figures),
        )
        if self.board.has_room(name):
            self._metrics.planned(name, figures.assignor, seconds, is_followed=figures.followup_ms is not None)
            self.board.planned(figures, at=event.at, seconds=seconds)
        log.info("streams-plan", application=name, plan=figures.plan, assignor=figures.assignor, detail=event.detail)

    def failed(self, application: str, error: NoPlanError) -> None:
        """Reports a question without a plan."""
        self._events.add("streams-plan", application, action="failed", failure=str(error))
        if self.board.has_room(application):
            self._metrics.failed(application, error.status)
            self.board.failed(application, str(error))
        log.warning("streams-no-plan", application=application, status=error.status, reason=str(error))

    def computed(self, outcome: Computed) -> None:
        """Reports what an application made of a plan; one that was used is counted, and no event."""
        name, reason = outcome.application, outcome.fallback or outcome.error
        if not outcome.fallback and outcome.error == "NONE":
            if outcome.plan is not None and self.board.has_room(name):
                self.board.used(name)
            return
        action = "fell-back" if outcome.fallback else "rejected"
        self._events.add("streams-plan", name, action=action, reason=reason, generation=outcome.generation)
        if self.board.has_room(name):
            if outcome.fallback:
                self._metrics.fell_back(name)
                self.board.fell_back(name, reason)
            else:
                self._metrics.rejected(name, reason)
                self.board.rejected(name, reason)
        log.warning("streams-plan-not-used", application=name, plan=outcome.plan, action=action, reason=reason)
