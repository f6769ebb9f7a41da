"""Answers Kafka Streams applications.

Each application has a process of its own, so a slow plan keeps no other one waiting, nor the agent's own threads.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from samerack.agent.streams.board import StreamsBoard
from samerack.agent.streams.context import MAX_NAME, Caller, PlanContext, PlanRules, Rackless
from samerack.agent.streams.outcome import read_outcome
from samerack.agent.streams.reporter import StreamsReporter
from samerack.agent.streams.workers import NoPlanError, Workers
from samerack.common.patterns import is_pattern
from samerack.settings.streams import StreamsSettings

_NAME: Final = re.compile(rb'"application"\s*:\s*"([^"\\]{1,%d})"' % MAX_NAME)
_HEAD_BYTES: Final = 4096
"""The name of the application is among the first bytes of a question."""
_MIN_SECONDS: Final = 0.2
"""With less time than this a question has no plan: the deadline would kill a process that has just become ready."""

RacksOf = Callable[[str, Sequence[Rackless]], Mapping[str, str]]
"""Returns by process the racks, as far as they are known, of an application's clients that sent none, from memory."""
WeightsOf = Callable[[str], Mapping[str, tuple[int, ...]] | None]
"""Returns by topic the weights of partitions by the bytes that an application reads, from memory."""


class StreamsService:
    """The plans of all applications; any thread may ask."""

    def __init__(
        self,
        settings: StreamsSettings,
        reporter: StreamsReporter,
        *,
        racks_of: RacksOf = lambda _application, _clients: {},
        weights_of: WeightsOf = lambda _application: None,
    ) -> None:
        self._settings = settings
        self._reporter = reporter
        self._racks_of = racks_of
        self._weights_of = weights_of
        self._workers = Workers(settings.python_path, max_processes=settings.max_processes)

    @property
    def board(self) -> StreamsBoard:
        """The last plan of each application."""
        return self._reporter.board

    def start(self) -> None:
        """Start the processes of the applications that the settings name, so that their first plan is not late."""
        names = [name for name in self._settings.applications if not is_pattern(name)]
        for name in names[: self._settings.max_processes]:
            try:
                with self._workers.of(name) as worker:
                    worker.start()
            except NoPlanError as error:
                self._reporter.not_started(name, error)

    def prepare(self, body: bytes) -> None:
        """Start the process of an application that will ask, so that its first plan is not late; return when it runs.

        Raises:
            NoPlanError: The body names no application, or all processes are busy.
        """
        with self._workers.of(_application(body), prepares=True) as worker:
            worker.prepare()

    def plan(self, body: bytes) -> bytes:
        """Return the answer to a question.

        Raises:
            NoPlanError: There is no plan; the application uses its fall-back.
        """
        application = _application(body)
        start = time.monotonic()
        try:
            with self._workers.of(application, patience=self._settings.deadline_seconds) as worker:
                answer, figures = worker.plan(body, self._context, seconds=self._left(time.monotonic() - start))
        except NoPlanError as error:
            self._reporter.failed(application, error)
            raise
        self._reporter.planned(figures, time.monotonic() - start)
        return answer

    def _left(self, waited: float) -> float:
        """Return the seconds that a question has left which waited for its process.

        Raises:
            NoPlanError: They are too few.
        """
        deadline = self._settings.deadline_seconds
        if deadline - waited < min(_MIN_SECONDS, deadline / 2):
            raise NoPlanError(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"the process that plans was ready only {waited:.1f} s after the question; the next rebalance finds it "
                "ready",
            )
        return deadline - waited

    def computed(self, body: bytes) -> None:
        """Record what an application made of a plan, and pass it on to a class of the user.

        Raises:
            NoPlanError: The body is not valid, or the class failed.
        """
        outcome = read_outcome(body)
        self._reporter.computed(outcome)
        if outcome.plan is not None and ":" in self._settings.of(outcome.application).assignor:
            try:
                with self._workers.of(outcome.application) as worker:
                    worker.computed(outcome.plan, outcome.error, seconds=self._settings.deadline_seconds)
            except NoPlanError as error:
                self._reporter.not_passed_on(outcome.application, outcome.plan, error)
                raise

    def _context(self, caller: Caller) -> PlanContext:
        """Return the rules of the application that asks, and what the agent knows of its clients and partitions."""
        name = caller.application
        chosen = self._settings.of(name)
        rules = PlanRules(**(chosen.model_dump() | {"weights": self._settings.weights_of(name)}))
        return PlanContext(
            rules=rules,
            racks=self._racks_of(name, caller.rackless),
            weights=self._weights_of(name) if rules.weights == "bytes" else None,
        )

    def stop(self) -> None:
        """End all processes."""
        self._workers.end()


def _application(body: bytes) -> str:
    """Return the name near the start of a question; it selects a process, and the question is checked there.

    Raises:
        NoPlanError: There is none.
    """
    found = _NAME.search(body[:_HEAD_BYTES])
    if found is None:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, f"application: expected a name within the first {_HEAD_BYTES} bytes")
    return found[1].decode("utf-8", "replace")
