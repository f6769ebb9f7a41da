"""Answers Kafka Streams applications.

Each application has a process of its own, so a slow plan keeps no other one waiting, nor the agent's own threads.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from samerack.agent.streams.board import StreamsBoard
from samerack.agent.streams.choice import Heading, Known, Rackless, Rules
from samerack.agent.streams.outcome import read_outcome
from samerack.agent.streams.reporter import StreamsReporter
from samerack.agent.streams.workers import NoPlanError, Workers
from samerack.common.patterns import is_pattern
from samerack.common.settings import StreamsSettings

_NAME: Final = re.compile(rb'"application"\s*:\s*"([^"\\]{1,249})"')
_HEAD_BYTES: Final = 4096
"""The name of the application is among the first bytes of a question."""

RackOf = Callable[[str, Rackless], str | None]
"""Returns the rack of an application's client that sent none, from memory."""
WeightsOf = Callable[[str], Mapping[str, tuple[int, ...]] | None]
"""Returns by topic the weights of partitions by the bytes that an application reads, from memory."""


class StreamsService:
    """The plans of all applications; any thread may ask."""

    def __init__(
        self,
        settings: StreamsSettings,
        reporter: StreamsReporter,
        *,
        rack_of: RackOf = lambda _application, _client: None,
        weights_of: WeightsOf = lambda _application: None,
    ) -> None:
        """Prepares.

        Args:
            settings: the section of the settings.
            reporter: where plans are reported.
            rack_of: knows racks of clients that sent none.
            weights_of: knows measured bytes.
        """
        self._settings = settings
        self._reporter = reporter
        self._rack_of = rack_of
        self._weights_of = weights_of
        self._workers = Workers(settings.python_path, most=settings.max_processes)

    @property
    def board(self) -> StreamsBoard:
        """The last plan of each application."""
        return self._reporter.board

    def start(self) -> None:
        """Starts the processes of the applications that the settings name, so that their first plan is not late."""
        names = [name for name in self._settings.applications if not is_pattern(name)]
        for name in names[: self._settings.max_processes]:
            with self._workers.of(name) as worker:
                worker.start()

    def prepare(self, body: bytes) -> None:
        """Starts the process of an application that will ask, so that its first plan is not late; returns when it runs.

        Raises:
            NoPlanError: The body names no application, or all processes are busy.
        """
        with self._workers.of(_application(body), prepares=True) as worker:
            worker.prepare()

    def plan(self, body: bytes) -> bytes:
        """Returns the answer to a question.

        Raises:
            NoPlanError: There is no plan; the application uses its fall-back.
        """
        application = _application(body)
        start = time.monotonic()
        try:
            deadline = self._settings.deadline_seconds
            with self._workers.of(application, patience=deadline) as worker:
                left = max(0.0, deadline - (time.monotonic() - start))
                answer, figures = worker.plan(body, self._known, seconds=left)
        except NoPlanError as error:
            self._reporter.failed(application, error)
            raise
        self._reporter.planned(figures, time.monotonic() - start)
        return answer

    def computed(self, body: bytes) -> None:
        """Records what an application made of a plan, and passes it on to a class of the user.

        Raises:
            NoPlanError: The body is not valid, or the class failed.
        """
        outcome = read_outcome(body)
        self._reporter.computed(outcome)
        if outcome.plan is not None and ":" in self._settings.of(outcome.application).assignor:
            with self._workers.of(outcome.application) as worker:
                worker.computed(outcome.plan, outcome.error, seconds=self._settings.deadline_seconds)

    def _known(self, heading: Heading) -> Known:
        """Returns the rules of the application that asks, and what the agent knows of its clients and partitions."""
        name = heading.application
        chosen = self._settings.of(name)
        rules = Rules(**(chosen.model_dump() | {"weights": chosen.weights or self._settings.weights}))
        racks = {client.process: self._rack_of(name, client) for client in heading.rackless}
        return Known(
            rules=rules,
            racks={process: rack for process, rack in racks.items() if rack is not None},
            weights=self._weights_of(name) if rules.weights == "bytes" else None,
        )

    def stop(self) -> None:
        """Ends all processes."""
        self._workers.end()


def _application(body: bytes) -> str:
    """Returns the name near the start of a question; it selects a process, and the question is checked there.

    Raises:
        NoPlanError: There is none.
    """
    found = _NAME.search(body[:_HEAD_BYTES])
    if found is None:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, f"application: expected a name within the first {_HEAD_BYTES} bytes")
    return found[1].decode("utf-8", "replace")
