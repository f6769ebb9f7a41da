"""Kinds of records and their topics, and a bounded buffer of those that Kafka has not acknowledged yet.

When it is full it drops the oldest state of a group first, since the next one replaces it; without states the oldest
sample, since readers drop the oldest windows first too; last the oldest event, of which there are few. A record in
flight cannot be taken back. No client is loaded here: an agent that publishes nothing asks for its topics, too.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum

from samerack.common.errors import SettingsError
from samerack.settings.all_settings import Settings


class Kind(Enum):
    """What a record contains; the value is the label in metrics."""

    SAMPLE = "sample"
    STATE = "state"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OutgoingRecord:
    """One record to send; a retry carries the same id.

    Attributes:
        number: its position among all records of this agent.
        key: cluster and group; records of one key keep their order.
        value: the record as JSON.
        group: for log messages.
    """

    number: int
    kind: Kind
    topic: str
    key: bytes
    value: bytes
    group: str

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key) + len(self.value)


class Outbox:
    """Waiting records, by kind and in order of numbers, and records in flight."""

    def __init__(self, *, max_bytes: int) -> None:
        """Create an empty outbox; the bound is for waiting and in-flight records together."""
        self._max_bytes = max_bytes
        self._waiting: dict[Kind, list[OutgoingRecord]] = {kind: [] for kind in Kind}
        self._in_flight: dict[int, OutgoingRecord] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._in_flight) + sum(map(len, self._waiting.values()))

    def count(self, kind: Kind) -> int:
        """Return how many of them are of a kind."""
        return len(self._waiting[kind]) + sum(record.kind is kind for record in self._in_flight.values())

    def numbers(self) -> set[int]:
        """Return the numbers of all."""
        return {*self._in_flight, *(record.number for row in self._waiting.values() for record in row)}

    def add(self, record: OutgoingRecord) -> list[OutgoingRecord]:
        """Add a record; return what was dropped for it, which may be the record itself."""
        heapq.heappush(self._waiting[record.kind], record)
        self.bytes += record.size
        dropped = []
        while self.bytes > self._max_bytes:
            row = next(
                (self._waiting[kind] for kind in (Kind.STATE, Kind.SAMPLE, Kind.EVENT) if self._waiting[kind]), None
            )
            if row is None:
                break  # all the rest is in flight
            oldest = heapq.heappop(row)
            self.bytes -= oldest.size
            dropped.append(oldest)
        return dropped

    def take(self, kind: Kind, max_in_flight: int) -> list[OutgoingRecord]:
        """Return the oldest waiting records of a kind, now in flight; no more than `max_in_flight` are at a time."""
        row = self._waiting[kind]
        taken: list[OutgoingRecord] = []
        room = max_in_flight - sum(record.kind is kind for record in self._in_flight.values())
        while row and len(taken) < room:
            record = heapq.heappop(row)
            self._in_flight[record.number] = record
            taken.append(record)
        return taken

    def done(self, record: OutgoingRecord) -> None:
        """Remove a record that was acknowledged, or will never be sent again."""
        if self._in_flight.pop(record.number, None) is not None:
            self.bytes -= record.size

    def put_back(self, record: OutgoingRecord) -> None:
        """Let a record wait again that was not acknowledged, in its old position."""
        if self._in_flight.pop(record.number, None) is not None:
            heapq.heappush(self._waiting[record.kind], record)

    def put_all_back(self) -> None:
        """Let all records in flight wait again: their producer is gone."""
        for record in list(self._in_flight.values()):
            self.put_back(record)

    def empty(self) -> list[OutgoingRecord]:
        """Remove and return everything."""
        self.put_all_back()
        left = sorted(record for row in self._waiting.values() for record in row)
        self._waiting, self.bytes = {kind: [] for kind in Kind}, 0
        return left


def topics_of(settings: Settings) -> dict[Kind, str]:
    """Return the topic of each kind of records; empty where nothing is published.

    Raises:
        SettingsError: Events would share a topic with other records.
    """
    asked, events = settings.publishing, settings.events.topic
    if events and events in asked.topics:
        raise SettingsError(f"events.topic: is {events}, like another topic in publishing; events need their own topic")
    topics = {Kind.SAMPLE: asked.traffic_topic, Kind.STATE: asked.states_topic, Kind.EVENT: events}
    return {kind: topic for kind, topic in topics.items() if topic}
