"""The event log: what all parts of the agent report, and where readers find it; bounded, in memory, newest last.

Nothing here waits for a disk: each event is passed to listeners (the event writer, the publisher), which only queue
it. Also the metrics of events.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from samerack.events.event import MAX_ASKED, Event, Kind


class EventMetrics:
    """The counts of the event log and of the event writer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Create all series at 0: a rate misses the first event where no 0 came before it."""
        self._events = Counter("samerack_events", "Events, by kind.", ["kind"], registry=registry)
        for kind in get_args(Kind):
            self._events.labels(kind)
        self._stored = Gauge(
            "samerack_events_stored",
            "1 while events are written to a file.",
            registry=registry,
        )
        self._dropped = Counter(
            "samerack_events_dropped",
            "Events that were never written to the file.",
            registry=registry,
        )

    def happened(self, kind: Kind) -> None:
        """Count an event."""
        self._events.labels(kind).inc()

    def stored(self, *, succeeded: bool) -> None:
        """Set whether events are written."""
        self._stored.set(float(succeeded))

    def dropped(self) -> None:
        """Count an event that will never be written."""
        self._dropped.inc()


_SECONDS_PER_DAY: Final = 86_400.0


@dataclass(kw_only=True, eq=False, repr=False)
class EventLog:
    """The event log; of more than `max_events` the oldest are dropped.

    `rate` returns the bytes per second that a group reads at the moment, `dollars` the cost of bytes that cross racks.
    `clock` is in seconds since 1970.
    """

    rate: Callable[[str], float | None] = lambda _group: None
    dollars: Callable[[float], float | None] = lambda _bytes: None
    metrics: EventMetrics | None = None
    clock: Callable[[], float] = time.time
    max_events: int = MAX_ASKED
    _former: frozenset[str] = field(default=frozenset(), init=False)
    _listeners: list[Callable[[Event], None]] = field(default_factory=list, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._all: deque[Event] = deque()
        self._of_group: dict[str, deque[Event]] = {}
        """The same events by group: each group that is led asks for its own again and again."""

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` (quick, from whatever thread adds) with every event from now on."""
        self._listeners.append(listener)

    def remember(self, events: Iterable[Event]) -> None:
        """Add stored events of former runs, the oldest first; listeners are not called."""
        with self._lock:
            present = tuple(self._all)
            known = {event.id for event in present}
            former = tuple(event for event in events if event.id not in known)
            self._former |= {event.id for event in former}
            self._all.clear()
            self._of_group.clear()
            for event in (*former, *present):
                self._append(event)

    def _append(self, event: Event) -> None:
        """Append an event, in place of the oldest one if there are as many as may be; the lock is held."""
        self._all.append(event)
        self._of_group.setdefault(event.group, deque()).append(event)
        if len(self._all) > self.max_events:
            oldest = self._all.popleft()
            rest = self._of_group[oldest.group]
            rest.popleft()
            if not rest:
                del self._of_group[oldest.group]

    def add(self, kind: Kind, group: str = "", *, ago: float = 0.0, **fields: Any) -> Event:
        """Add an event that happened now or `ago` seconds before; "" is the group of what concerns the agent.

        `fields` are others of `Event`; the group's byte rate and its shares' cost per day are added.
        """
        rate = self.rate(group) if group else None
        event = Event(
            at=self.clock() - ago,
            group=group,
            kind=kind,
            bytes_per_second=rate,
            dollars_per_day_before=self._cost(fields.get("share_before"), rate),
            dollars_per_day_after=self._cost(fields.get("share_after"), rate),
            **fields,
        )
        with self._lock:
            self._append(event)
        if self.metrics is not None:
            self.metrics.happened(kind)
        for listener in self._listeners:
            listener(event)
        return event

    def latest(
        self,
        limit: int = MAX_ASKED,
        *,
        group: str | None = None,
        kinds: Collection[str] = (),
        since: float = float("-inf"),
        former: bool = False,
    ) -> tuple[Event, ...]:
        """Return at most `limit` events, the newest first, of one group and of some kinds if these are given.

        `since` is in seconds since 1970; `former`: only those of former runs, see `remember`.
        """
        with self._lock:
            kept = tuple(self._all if group is None else self._of_group.get(group, ()))
            remembered = self._former
        found = [
            event
            for event in reversed(kept)
            if event.at >= since and (not kinds or event.kind in kinds) and (not former or event.id in remembered)
        ]
        found.sort(key=lambda event: event.at, reverse=True)  # a rebalance is added a moment after it was over
        return tuple(found[:limit])

    def _cost(self, share: float | None, rate: float | None) -> float | None:
        return None if share is None or rate is None else self.dollars(share * rate * _SECONDS_PER_DAY)
