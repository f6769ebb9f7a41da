"""The thread that writes events and the history of traffic to the file: opens it, writes, and retries after a failure.

Adding one only puts it into a bounded queue. While the file cannot be used they wait, and the oldest are dropped when
there are too many; the agent continues.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from zlib import crc32

import structlog

from samerack.common.attempts import RetryPauses
from samerack.common.errors import one_line
from samerack.common.service import Service
from samerack.events.event import MAX_ASKED, Event, to_json
from samerack.events.event_log import EventLog, EventMetrics
from samerack.events.history import HistoryRow, TrafficHistory
from samerack.events.store import CorruptError, Store, StoreError, set_aside
from samerack.settings.all_settings import Settings
from samerack.settings.publishing import IN_MEMORY
from samerack.traffic.snapshot import Gap

log = structlog.get_logger("events")

MAX_WAITING: Final = 1_000
_MAX_ROWS_WAITING: Final = 12
"""An hour of the history."""
_FIRST_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 30.0
_HOMELESS: Final = Path("/var/lib")
"""For a user without a home directory, as in a container."""
_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_Entry = TypeVar("_Entry", Event, HistoryRow)


class EventWriter(Service):
    """Writes the event log to a file."""

    failure_event = "events-in-memory"
    expected_errors = (StoreError,)
    may_hurry = False  # another event makes the file no better

    def __init__(  # noqa: PLR0913 - all named
        self,
        path: Path,
        *,
        events: EventLog,
        history: TrafficHistory,
        metrics: EventMetrics,
        max_events: int = MAX_ASKED,
        days: float,
        max_waiting: int = MAX_WAITING,
        first_pause_seconds: float = _FIRST_PAUSE_SECONDS,
    ) -> None:
        """Prepare; `start` opens the file, and adds its events and points to the event log and the history of traffic.

        The file keeps `max_events` for `days`; `max_waiting` may wait to be written. Pauses between new attempts double
        from the first on.
        """
        super().__init__("events", retries=RetryPauses(first=first_pause_seconds, most=_MAX_PAUSE_SECONDS))
        self._path = path
        self._open: Callable[[], Store] = lambda: Store(path, max_events=max_events, days=days)
        self._events = events
        self._metrics = metrics
        self._history = history
        self._waiting: deque[Event] = deque()
        self._rows: deque[HistoryRow] = deque(maxlen=_MAX_ROWS_WAITING)
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._known = self._history_known = False
        events.listen(self.take)
        history.listen(self.take_row)

    @property
    def trouble(self) -> str:
        """Why events are in memory only; empty while they are written."""
        return self.last_error

    def start(self) -> None:
        """Open the file, so that the log has former events before any new one, and start."""
        self._try(self._reopen)
        super().start()

    def take(self, event: Event) -> None:
        """Have an event written; returns at once."""
        try:
            to_json(event)
        except ValueError as error:  # it would keep back all that come after it
            self._metrics.dropped()
            log.error("event-dropped", kind=event.kind, reason=one_line(error))  # noqa: TRY400 - its text says where
            return
        with self._lock:
            if len(self._waiting) >= self._max_waiting:
                self._waiting.popleft()
                self._metrics.dropped()
            self._waiting.append(event)
        self.wake()

    def take_row(self, row: HistoryRow) -> None:
        """Have a row of the history written; returns at once."""
        with self._lock:
            self._rows.append(row)
        self.wake()

    def gaps(self) -> tuple[Gap, ...]:
        """Return what is missing while the file cannot be used."""
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

    def turn(self) -> float:
        """Write all that waits, events first; return the pause, which whatever comes ends."""
        store = self._store or self._reopen()
        self._write(self._waiting, store.add)
        self._write(self._rows, partial(store.add_history, keep_seconds=self._history.span_seconds))
        if not self._history_known:
            self._history.remember(store.history())
            self._history_known = True
        self._metrics.stored(succeeded=True)
        return threading.TIMEOUT_MAX

    def failed(self, error: Exception) -> None:  # noqa: ARG002 - after any error the file is opened anew
        """Close the file."""
        self._close()
        self._metrics.stored(succeeded=False)

    def report(self, trouble: str) -> None:
        """Log why events are not written."""
        log.warning(self.failure_event, reason=trouble, consequence="a restart forgets what is not written")

    def ended(self) -> None:
        """Write what waits, and close the file."""
        self._try(self.turn)
        self._close()

    def _write(self, waiting: deque[_Entry], write: Callable[[tuple[_Entry, ...]], None]) -> None:
        """Write what waits; then remove what was written, of which some may have been dropped meanwhile."""
        with self._lock:
            written = tuple(waiting)
        if not written:
            return
        write(written)
        with self._lock:
            gone = set(map(id, written))
            while waiting and id(waiting[0]) in gone:
                waiting.popleft()

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
        self._metrics.stored(succeeded=True)
        log.info("events-stored", path=str(self._path), events=len(former))
        return store

    def _try(self, step: Callable[[], object]) -> None:
        """Run a step outside of turns."""
        try:
            step()
        except StoreError as error:
            self._record(error)
            self.failed(error)

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def writer_of(
    settings: Settings, events: EventLog, history: TrafficHistory, metrics: EventMetrics
) -> EventWriter | None:
    """Return the writer of the file in the settings; None where events are in memory only."""
    path = path_of(settings)
    if path is None:
        return None
    return EventWriter(path, events=events, history=history, metrics=metrics, days=settings.events.days)


def path_of(settings: Settings, environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the file; None where events are kept in memory only.

    Without a path in the settings, the name is made from what distinguishes the agent on this machine: its identity in
    the election, cluster, port and groups. So a restarted agent finds its file, and no two share one by accident.
    """
    given = settings.events.path
    if given == IN_MEMORY:
        return None
    if given:
        return Path(given).expanduser()
    environment = os.environ if environment is None else environment
    state = environment.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else _state_of_user()
    return base / "samerack" / f"events-{_name(settings)}.db"


def _state_of_user() -> Path:
    try:
        return Path("~/.local/state").expanduser()
    except RuntimeError:
        return _HOMELESS


def _name(settings: Settings) -> str:
    whole = "\n".join(
        (
            settings.election.identity or socket.gethostname(),
            settings.kafka.get("bootstrap.servers", ""),
            str(settings.web.port),
            *settings.groups,
            "",
            *settings.traffic.groups,
            *settings.clusters,
        )
    )
    shown = "".join(character for character in settings.election.identity[:40] if character in _SAFE)
    return f"{shown or 'port-' + str(settings.web.port)}-{crc32(whole.encode()):08x}"
