"""The thread that writes events to the file: opens it, writes queued events, and retries after a failure.

Adding an event only puts it into a bounded queue. While the file cannot be used the events wait, and the oldest are
dropped when there are too many; the agent continues.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from samerack.agent.events.event_log import EventLog
from samerack.agent.events.metrics import EventMetrics
from samerack.agent.events.model import Event
from samerack.agent.events.place import path_of
from samerack.agent.events.store import CorruptError, Store, StoreError, set_aside
from samerack.common.attempts import Attempts, RetryPauses
from samerack.common.settings import Settings
from samerack.traffic.model import Gap

log = structlog.get_logger("events")

MAX_WAITING: Final = 1_000
_FIRST_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 30.0


class EventWriter(threading.Thread):
    """Writes the event log to a file."""

    def __init__(  # noqa: PLR0913 - all named
        self,
        path: Path,
        *,
        events: EventLog,
        metrics: EventMetrics,
        max_events: int,
        days: float,
        max_waiting: int = MAX_WAITING,
        first_pause_seconds: float = _FIRST_PAUSE_SECONDS,
    ) -> None:
        """Prepare; `start` opens the file.

        Args:
            path: the file.
            events: the event log; the file's events are added to it.
            metrics: where to count.
            max_events: how many events the file keeps.
            days: for how many days.
            max_waiting: how many may wait to be written.
            first_pause_seconds: before the first new attempt; later pauses double.
        """
        super().__init__(name="events", daemon=True)
        self._path = path
        self._open: Callable[[], Store] = lambda: Store(path, max_events=max_events, days=days)
        self._events = events
        self._metrics = metrics
        self._waiting: deque[Event] = deque()
        self._max_waiting = max_waiting
        self._attempts = Attempts(RetryPauses(first=first_pause_seconds, most=_MAX_PAUSE_SECONDS))
        self._news = threading.Condition()
        self._stopping = False
        self._store: Store | None = None
        self._known = False
        self.trouble = ""
        """Why events are in memory only; empty while they are written."""
        events.listen(self.take)

    def start(self) -> None:
        """Open the file, so that the log has former events before any new one, and start."""
        self._safely(self._reopen)
        super().start()

    def take(self, event: Event) -> None:
        """Have an event written; returns at once."""
        with self._news:
            if len(self._waiting) >= self._max_waiting:
                self._waiting.popleft()
                self._metrics.dropped()
            self._waiting.append(event)
            self._news.notify()

    def gaps(self) -> tuple[Gap, ...]:
        """What is missing while the file cannot be used."""
        if not self.trouble:
            return ()
        reason, _, cure = self.trouble.rpartition("; ")
        return (
            Gap(
                what="events",
                where=str(self._path),
                refused=False,
                reason=(reason or self.trouble).removeprefix(f"{self._path}: "),
                consequence=f"a restart forgets what happened; {cure}",
            ),
        )

    def stop(self) -> None:
        """Write what waits, and end."""
        with self._news:
            self._stopping = True
            self._news.notify()

    def run(self) -> None:
        """Write until stopped."""
        if self.trouble:
            self._attempts.failed()
        try:
            while True:
                stopping = self._rest(self._attempts.pause_seconds)
                succeeded = self._safely(self._write)
                if stopping:
                    return
                if succeeded:
                    self._attempts.succeeded()
                else:
                    self._attempts.failed()
        finally:
            if self._store is not None:
                self._store.close()

    def _rest(self, pause: float) -> bool:
        """Wait for an event, or for the end of a pause; return whether to stop."""
        with self._news:
            self._news.wait_for(lambda: self._stopping or bool(self._waiting and not pause), pause or None)
            return self._stopping

    def _write(self) -> None:
        """Write all waiting events."""
        store = self._store or self._reopen()
        with self._news:
            written = tuple(self._waiting)
        if not written:
            return
        store.add(written)
        with self._news:
            gone = {event.id for event in written}
            while self._waiting and self._waiting[0].id in gone:
                self._waiting.popleft()

    def _reopen(self) -> Store:
        try:
            store = self._open()
        except CorruptError as error:
            aside = set_aside(self._path)
            log.error("events-set-aside", reason=str(error), kept_as=str(aside))  # noqa: TRY400 - not the agent's error
            store = self._open()
        try:
            former = () if self._known else store.events()
        except StoreError:
            store.close()
            raise
        self._store, self._known = store, True
        self._events.remember(former)
        log.info("events-stored", path=str(self._path), events=len(former))
        return store

    def _safely(self, step: Callable[[], object]) -> bool:
        """Run a step and return whether it succeeded; the reason of a failure is logged once."""
        try:
            step()
        except StoreError as error:
            if str(error) != self.trouble:
                log.warning("events-in-memory", reason=str(error), consequence="a restart forgets what is not written")
            self.trouble = str(error)
            if self._store is not None:
                self._store.close()
                self._store = None
            self._metrics.stored(succeeded=False)
            return False
        self.trouble = ""
        self._metrics.stored(succeeded=True)
        return True


def writer_of(settings: Settings, events: EventLog, metrics: EventMetrics) -> EventWriter | None:
    """Return the writer of the file in the settings; None where events are in memory only."""
    path = path_of(settings)
    if path is None:
        return None
    return EventWriter(path, events=events, metrics=metrics, max_events=settings.events.most, days=settings.events.days)
