"""Records that Kafka has not acknowledged yet, within bounds: what waits, what is on its way, what had to go.

When it is full the oldest state of a group goes first, since the next one takes its place, and only where there is
none the oldest sample, last the oldest event, of which there are few: readers give up on the oldest windows first too,
and a record on its way cannot be taken back.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a record tells; the value is the label in metrics."""

    SAMPLE = "sample"
    STATE = "state"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OutgoingRecord:
    """One record as it is sent, and sent again with the same id inside.

    Attributes:
        number: its place among all records of this agent.
        kind: what it tells.
        topic: where it goes.
        key: cluster and group; records of one key keep their order.
        value: the record as JSON.
        group: for messages.
    """

    number: int
    kind: Kind
    topic: str
    key: bytes
    value: bytes
    group: str

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.key) + len(self.value)


class Outbox:
    """Records that wait, by kind and in order of numbers, and records in flight."""

    def __init__(self, *, most_records: int, most_bytes: int) -> None:
        """Empty.

        Args:
            most_records: bound for what waits and what is on its way together.
            most_bytes: the same in bytes.
        """
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._waiting: dict[Kind, list[OutgoingRecord]] = {kind: [] for kind in Kind}
        self._on_way: dict[int, OutgoingRecord] = {}
        self.bytes = 0

    def __len__(self) -> int:
        """How many records are not acknowledged."""
        return len(self._on_way) + sum(map(len, self._waiting.values()))

    def count(self, kind: Kind) -> int:
        """How many of them are of a kind."""
        return len(self._waiting[kind]) + sum(record.kind is kind for record in self._on_way.values())

    def numbers(self) -> set[int]:
        """The numbers of all."""
        return {*self._on_way, *(record.number for row in self._waiting.values() for record in row)}

    def add(self, record: OutgoingRecord) -> list[OutgoingRecord]:
        """Let a record wait; the answer is what had to go for it, which may be the record itself."""
        heapq.heappush(self._waiting[record.kind], record)
        self.bytes += record.size
        gone = []
        while len(self) > self._most_records or self.bytes > self._most_bytes:
            row = next(
                (self._waiting[kind] for kind in (Kind.STATE, Kind.SAMPLE, Kind.EVENT) if self._waiting[kind]), None
            )
            if row is None:
                break  # all the rest is on its way
            oldest = heapq.heappop(row)
            self.bytes -= oldest.size
            gone.append(oldest)
        return gone

    def take(self, kind: Kind, most: int) -> list[OutgoingRecord]:
        """The oldest that wait, which are on their way now; no more than `most` of a kind are at a time."""
        row = self._waiting[kind]
        taken: list[OutgoingRecord] = []
        room = most - sum(record.kind is kind for record in self._on_way.values())
        while row and len(taken) < room:
            record = heapq.heappop(row)
            self._on_way[record.number] = record
            taken.append(record)
        return taken

    def done(self, record: OutgoingRecord) -> None:
        """A record has arrived, or will never be sent again."""
        if self._on_way.pop(record.number, None) is not None:
            self.bytes -= record.size

    def put_back(self, record: OutgoingRecord) -> None:
        """A record did not arrive; it waits again, in its old place."""
        if self._on_way.pop(record.number, None) is not None:
            heapq.heappush(self._waiting[record.kind], record)

    def put_all_back(self) -> None:
        """Whoever carried what is on its way is gone."""
        for record in list(self._on_way.values()):
            self.put_back(record)

    def empty(self) -> list[OutgoingRecord]:
        """Take everything out, for good."""
        self.put_all_back()
        left = sorted(record for row in self._waiting.values() for record in row)
        self._waiting, self.bytes = {kind: [] for kind in Kind}, 0
        return left
