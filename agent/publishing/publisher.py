"""The thread that publishes: takes the board's publications, makes records of them, and has the sender send them.

The cycle's thread only puts a value in a queue.
"""

from __future__ import annotations

import queue
import socket
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import structlog

from samerack.agent.publishing.metrics import DropReason, PublishingMetrics, TopicRefusal
from samerack.agent.publishing.outbox import Kind, Outbox, OutgoingRecord, topics_of
from samerack.agent.publishing.sender import Sender, producer_config
from samerack.agent.publishing.states import LastPublished, state_record
from samerack.common.attempts import RetryPauses
from samerack.common.records import SCHEMA, GroupState, TrafficSample, encode
from samerack.common.service import Service
from samerack.events import Event
from samerack.events.event import to_record
from samerack.settings.all_settings import Settings
from samerack.traffic.board import Published
from samerack.traffic.snapshot import FlowKey, Gap, GroupTraffic, Totals, TrafficSnapshot, Volume

# Converts totals that only grow to volumes by window: each byte in one window; no step over two minutes is divided.
#
# A sample is the difference of two totals of the same key, and totals never go down: a late correction in measuring,
# such as a calibration, counts from then on and takes nothing back. So no difference is negative, and the sum of all
# differences is the total. Bytes between two polls on both sides of a boundary are divided by time.

_LONGEST_STEP_SECONDS: Final = 120.0
"""After a longer pause (a suspended machine) it is unknown when the bytes were read: they count at its end."""
_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of one key between two moments, in milliseconds since 1970."""

    key: FlowKey
    volume: Volume
    begin: int
    end: int


@dataclass(slots=True, kw_only=True)
class _Window:
    """One open window: what was counted, and which part of it the polls covered."""

    begin: int
    end: int
    sums: dict[FlowKey, tuple[int, int]]


class Windows:
    """The open windows. Memory: one entry for each key and open window, and one for each key ever seen."""

    def __init__(self, seconds: int) -> None:
        """Start without open windows; `seconds` is their length, of which a minute is a multiple."""
        self._length = seconds * _MILLISECONDS
        self._totals: Totals = MappingProxyType({})
        self._at: int | None = None
        self._open: dict[int, _Window] = {}

    def add(self, totals: Totals, at: float) -> None:
        """Add the totals at a moment, in seconds since 1970."""
        now = int(at * _MILLISECONDS)
        before = self._at
        if before is None or not 0 <= now - before <= _LONGEST_STEP_SECONDS * _MILLISECONDS:
            before = now  # the first poll, a clock that was set back, a pause
        spans = self._spans(before, now)
        for key, volume in totals.items():
            known = self._totals.get(key)
            wire_bytes = volume.wire_bytes - (known.wire_bytes if known is not None else 0)
            records = volume.records - (known.records if known is not None else 0)
            if wire_bytes or records:
                self._divide(key, wire_bytes, records, spans)
        self._totals, self._at = totals, now

    def closed(self) -> list[Counted]:
        """Remove the windows that have ended by the last moment, and return their content."""
        return self._take([start for start in self._open if self._at is not None and start + self._length <= self._at])

    def rest(self) -> list[Counted]:
        """Remove all windows, ended or not, and return their content: the last samples."""
        return self._take(list(self._open))

    def start_of(self, at: float) -> int:
        """Return when the window of a moment (seconds since 1970) begins, in milliseconds."""
        now = int(at * _MILLISECONDS)
        return now - now % self._length

    def _spans(self, begin: int, end: int) -> list[tuple[_Window, int]]:
        """Return the windows between two moments, with the milliseconds in each; a single moment is in one window."""
        spans = []
        start = begin - begin % self._length
        while True:
            first, last = max(begin, start), min(end, start + self._length)
            window = self._open.get(start)
            if window is None:
                window = self._open[start] = _Window(begin=first, end=first + 1, sums={})
            # a window is not empty, and the last moment belongs to it
            window.begin, window.end = min(window.begin, first), max(window.end, last)
            spans.append((window, last - first))
            start += self._length
            if start >= end:
                return spans

    @staticmethod
    def _divide(key: FlowKey, wire_bytes: int, records: int, spans: list[tuple[_Window, int]]) -> None:
        """Divide a volume by time, in whole bytes and records; the last window gets the rest, so nothing is lost."""
        whole = sum(milliseconds for _, milliseconds in spans)
        for place, (window, milliseconds) in enumerate(spans):
            last = place == len(spans) - 1
            mine = wire_bytes if last else wire_bytes * milliseconds // whole
            counted = records if last else records * milliseconds // whole
            whole -= milliseconds
            wire_bytes, records = wire_bytes - mine, records - counted
            if mine or counted:
                had = window.sums.get(key, (0, 0))
                window.sums[key] = (had[0] + mine, had[1] + counted)

    def _take(self, starts: list[int]) -> list[Counted]:
        return [
            Counted(key=key, volume=Volume(wire_bytes=wire_bytes, records=records), begin=window.begin, end=window.end)
            for window in (self._open.pop(start) for start in sorted(starts))
            for key, (wire_bytes, records) in sorted(window.sums.items())
        ]


log = structlog.get_logger("publishing")

_TURN_SECONDS: Final = 0.2
_RETRIES: Final = RetryPauses(first=0.2, most=0.2)
_MAX_UNNAMED: Final = 1_000
_MAX_BUFFERED_BYTES: Final = 64 << 20
"""A few hours of a large cluster; the container has memory for it beside all else."""
"""Most events that wait for the cluster's id; an agent without it cannot reach its cluster."""
_LAST_SECONDS: Final = 1.5
"""For the last records, when the agent stops."""


class Publisher(Service):
    """Publishes what is queued by `take` (the board) and `take_event` (events).

    After `stop` all that was counted until then is published, within about two seconds.
    """

    failure_event = "publishing-failed"
    may_hurry = False
    is_awaited = True

    def __init__(  # noqa: PLR0913 - all named
        self,
        settings: Settings,
        *,
        metrics: PublishingMetrics,
        roles: Callable[[], Mapping[str, str]],
        mine: Callable[[str], bool],
        cluster_id: Callable[[], str],
        election: Callable[[], str],
    ) -> None:
        """Prepare; `start` begins.

        `roles` returns the agent's role in each group; `mine` whether this agent publishes a group's state, while
        samples are of what it counted; `cluster_id` the id of the measured cluster, empty while it is not known;
        `election` the election whose agents together count each byte once, empty while this one counts alone.

        Raises:
            SettingsError: librdkafka refuses a setting.
        """
        super().__init__("publishing", retries=_RETRIES)
        asked = settings.publishing
        self._topics = topics_of(settings)
        self._cluster = asked.cluster
        self._cluster_id = cluster_id
        self._leading = settings.leading
        self._agent = f"{settings.leading.instance_id}@{socket.gethostname()}"
        self._run = uuid.uuid4().hex
        self._number = 0
        self._roles = roles
        self._mine = mine
        self._election = election
        self._metrics = metrics
        self._windows = Windows(asked.every_seconds)
        self._interval = 0
        self._last_published = LastPublished()
        self._outbox = Outbox(max_bytes=_MAX_BUFFERED_BYTES)
        self._full = False
        self._sender = Sender(
            producer_config(settings.kafka, asked.kafka),
            topics=self._topics,
            outbox=self._outbox,
            metrics=metrics,
        )
        self._queue: queue.SimpleQueue[Published | Event] = queue.SimpleQueue()
        self._unnamed: deque[Event] = deque(maxlen=_MAX_UNNAMED)

    def gaps(self) -> tuple[Gap, ...]:
        """Return the topics that take no records at the moment, and the cure."""
        return tuple(trouble.gap for trouble in self._sender.troubles)

    @property
    def refusal(self) -> str:
        """Why no broker accepts what publishes, and the cure; empty while that is not so."""
        why = TopicRefusal.NOT_ACCEPTED
        return next(
            (f"{trouble.reason}; {trouble.cure}" for trouble in self._sender.troubles if trouble.why is why), ""
        )

    def take(self, published: Published) -> None:
        """Publish what was counted since the last time; returns at once."""
        self._queue.put(published)

    def take_event(self, event: Event) -> None:
        """Publish an event; returns at once. Of several agents that see a rebalance, its group's publishes it."""
        if Kind.EVENT in self._topics:
            self._queue.put(event)

    def turn(self) -> float:
        """Make records of what is queued, and send them."""
        with suppress(queue.Empty):
            self._take_in(self._queue.get(timeout=_TURN_SECONDS))
        if self._unnamed and self._knows_cluster():
            self._add_events()
        self._sender.turn()
        return 0.0

    def ended(self) -> None:
        """Make and send the last records."""
        while not self._queue.empty():
            self._take_in(self._queue.get())
        rest = self._windows.rest()
        if (rest or self._unnamed) and not self._knows_cluster():
            lost = len(rest) + len(self._unnamed)
            log.warning("records-lost", records=lost, reason="the cluster's id was never known")
            rest = []
        self._add_events()
        for counted in rest:
            self._add_sample(counted)
        self._sender.close(_LAST_SECONDS)

    # records

    def _take_in(self, news: Published | Event) -> None:
        if isinstance(news, Published):
            self._write(news)
        elif news.kind != "rebalance" or self._mine(news.group):
            self._unnamed.append(news)

    def _write(self, published: Published) -> None:
        snapshot = published.snapshot
        at = snapshot.window_end
        if Kind.SAMPLE in self._topics:
            self._windows.add(published.totals, at)
        if not self._knows_cluster():
            return  # what was counted waits in its windows
        for counted in self._windows.closed():
            self._add_sample(counted)
        if not snapshot.cycle:  # nothing is measured any more, and the next publication may come in days
            for counted in self._windows.rest():
                self._add_sample(counted)
            return
        if Kind.STATE in self._topics:
            interval = self._windows.start_of(at)
            roles = self._roles()
            groups = [group for group in snapshot.groups if self._mine(group.group)]
            for group in self._last_published.due(groups, snapshot.cluster, at=at, interval=interval != self._interval):
                self._add_state(group, snapshot, roles.get(group.group, ""))
            self._interval = interval

    def _knows_cluster(self) -> bool:
        """Return whether the id of the cluster is known: every record has it."""
        self._cluster = self._cluster or self._cluster_id()
        return bool(self._cluster)

    def _add_sample(self, counted: Counted) -> None:
        key = counted.key
        sample = TrafficSample(
            **self._next(key.group),
            topic=key.topic,
            client_rack=key.client_rack,
            replica_rack=key.replica_rack,
            method=key.method,
            window_start=counted.begin,
            window_end=counted.end,
            bytes=counted.volume.wire_bytes,
            records=counted.volume.records,
            election=self._election(),
        )
        self._add(Kind.SAMPLE, key.group, encode(sample))

    def _add_state(self, group: GroupTraffic, snapshot: TrafficSnapshot, role: str) -> None:
        state = GroupState(
            **self._next(group.group),
            at=int(snapshot.window_end * 1000),
            kind=group.kind,
            state=group.state,
            assignor=group.assignor,
            role=role,
            rack_aware_fetch=snapshot.rack_aware_fetch,
            **state_record(group, snapshot.cluster, self._leading)._asdict(),
        )
        self._add(Kind.STATE, group.group, encode(state))

    def _add_events(self) -> None:
        while self._cluster and self._unnamed:
            event = self._unnamed.popleft()
            self._add(Kind.EVENT, event.group, to_record(event, schema=SCHEMA, **self._next(event.group)))

    def _next(self, group: str) -> dict[str, Any]:
        """Return the fields that all kinds of records have; the id, run and number, is the same in every retry."""
        self._number += 1
        return {"id": f"{self._run}-{self._number}", "agent": self._agent, "cluster": self._cluster, "group": group}

    def _add(self, kind: Kind, group: str, value: bytes) -> None:
        """Add the record that was made last to the outbox."""
        outgoing = OutgoingRecord(
            number=self._number,
            kind=kind,
            topic=self._topics[kind],
            key=f"{self._cluster}/{group}".encode(),
            value=value,
            group=group,
        )
        dropped = self._outbox.add(outgoing)
        for one in dropped:
            self._metrics.dropped.labels(one.kind.value, DropReason.BUFFER_FULL.value).inc()
        if dropped and not self._full:
            log.warning(
                "buffer-full",
                records=len(self._outbox),
                bytes=self._outbox.bytes,
                cure="the oldest are dropped until the brokers accept records again",
            )
        self._full = bool(dropped)
