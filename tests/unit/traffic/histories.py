"""Random histories of one partition and one group: what consumers read in truth, and what polls of offsets show.

A history knows every record that some consumer really read; what is counted from its polls is held against that. Time
runs in seconds, polls come every five. Consumers read at their pace and commit at intervals, with leader epochs or
without, as members that own the partition or on their own (`assign`). Around them offsets expire, are reset by tools,
skipped by a seek, written beyond the end, copied by tools without any reader; topics are made anew; brokers do not
answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from samerack.traffic.collect import Offsets
from samerack.traffic.positions import Polls, Position, spans_of

PARTITION: Final = ("t", 0)
POLL_SECONDS: Final = 5
NETWORK: Final = 1.25e9
_FAR: Final = 50
"""A jump ahead has so many times the records that are usual in one step, and more than was written meanwhile; a nearer
one looks like reading."""


@dataclass(slots=True)
class Reader:
    """A consumer: where it reads, how many records a second at most, how often it commits, and where it did last."""

    offset: int
    pace: int
    every: int
    phase: int
    epochs: bool
    committed: int | None = None


@dataclass(slots=True)
class History:
    """One history, played second by second.

    Attributes:
        random: Decides everything.
        members: Whether the group's readers are members, of which one owns the partition; else they read on their own.
        events: Whether anything happens beyond writing, reading and committing.
        read: Records that consumers read in truth, each as often as it was read.
        counted: Records that count.
        named: Records that do not, and are named.
    """

    random: Random
    members: bool
    events: bool
    start: int = 0
    end: int = 0
    rate: int = 0
    commit: int | None = None
    begin: int = 0
    bare: bool = False
    readers: list[Reader] = field(default_factory=list)
    read: int = 0
    counted: int = 0
    named: int = 0
    waits: int = 0
    at: int = 0

    def play(self, polls: int) -> None:
        """Play until so many polls, and count."""
        positions: dict[tuple[str, int], Position] | None = None
        log_before: Offsets | None = None
        owned_before = False
        all_epochs = all(reader.epochs for reader in self.readers)
        for number in range(polls):
            for _ in range(POLL_SECONDS if number else 0):
                self._second()
            owned = self.members and bool(self.readers)
            if number and self.events and self.random.random() < 0.05:
                continue  # its coordinator did not answer
            log = Offsets(start=self.start, end=self.end)
            committed = positions[PARTITION].committed if positions and PARTITION in positions else None
            found = spans_of(
                Polls(
                    before=positions,
                    now={} if self.commit is None else {PARTITION: self.commit},
                    at=float(self.at),
                    owned_before={PARTITION} if owned_before else set(),
                    owned={PARTITION} if owned else set(),
                    logs_before={} if log_before is None else {PARTITION: log_before},
                    logs={} if number and self.events and self.random.random() < 0.03 else {PARTITION: log},
                    bare={PARTITION} if self.bare and self.commit != committed else set(),
                    commits_have_epochs=all_epochs,
                    without_members=not self.members,
                    network=NETWORK,
                )
            )
            positions = dict(found.positions or {})
            self.counted += sum(span.end - span.first for span in found.spans)
            self.named += sum(found.left.values())
            held = positions[PARTITION].held if PARTITION in positions else None
            self.waits = held.end - held.first if held is not None else 0
            log_before, owned_before = log, owned

    def _second(self) -> None:
        self.at += 1
        self.end += self.rate
        for reader in self.readers:
            reader.offset = max(reader.offset, self.start)
            took = max(0, min(reader.pace, self.end - reader.offset))
            reader.offset += took
            self.read += took
            if self.at % reader.every == reader.phase and reader.offset != reader.committed:
                self.commit = reader.committed = reader.offset
                self.bare = not reader.epochs
        if self.events and self.random.random() < 0.03:
            self._happens()

    def _happens(self) -> None:
        random, tool = self.random, not self.members or not self.readers
        what = random.randrange(8)
        if what == 0 and self.readers:  # a reader ends; a member commits as it does
            gone = self.readers.pop(random.randrange(len(self.readers)))
            if self.members and random.random() < 0.7:
                self.commit, self.bare = gone.offset, not gone.epochs
        elif what == 1:
            self._starts()
        elif what == 2 and tool:  # a tool resets the group, which has no members
            self._reset()
        elif what == 3 and self.readers:
            self._seeks(random.choice(self.readers))
        elif what == 4:  # expired, or deleted
            self.commit = None
            for reader in self.readers:
                reader.committed = None
        elif what == 5 and tool:
            self.commit, self.bare = self.end + random.randrange(10**7), True
        elif what == 6:  # retention
            self.start = random.randint(self.start, self.end)
        elif what == 7 and random.random() < 0.3:  # the topic is made anew
            self.start = self.end = 0
            self.commit = None
            for reader in self.readers:
                reader.offset, reader.committed = 0, None

    def _starts(self) -> None:
        if self.readers and self.members:
            return
        if len(self.readers) < 3:
            reader = self.readers[0] if self.readers else new_reader(self.random, self.rate)
            at = self.commit if self.commit is not None and self.commit <= self.end else self.end
            new = Reader(at, reader.pace, reader.every, reader.phase, reader.epochs)
            if not self.members:
                self._seeks(new)
            self.readers.append(new)

    def _reset(self) -> None:
        self.commit, self.bare = self.random.randint(self.start, self.end), True

    def _seeks(self, reader: Reader) -> None:
        offset = self.random.randint(self.start, self.end)
        ahead = offset - min(reader.offset, self.end if self.commit is None else self.commit)
        if ahead < 0 or ahead > max(_FAR * reader.pace * reader.every, 4 * self.rate * self.at):
            reader.offset = offset


def new_reader(random: Random, rate: int) -> Reader:
    """A reader at offset 0 that keeps up with what is written."""
    every = random.choice((1, 5, 5, 20, 60))
    return Reader(0, max(1, rate * random.choice((1, 2, 4))), every, random.randrange(every), random.random() < 0.7)


def played(seed: int, *, steady: bool = False, polls: int = 60) -> History:
    """The history of a seed; a steady one has readers that keep up, and no events."""
    random = Random(seed)  # noqa: S311 - a history is the same each time
    history = History(random=random, members=steady or random.random() < 0.5, events=not steady)
    history.rate = random.choice((0, 1, 20, 1000)) if not steady else random.choice((1, 20, 1000))
    history.end = random.randrange(10**7)
    history.start = random.randint(0, history.end)
    reader = new_reader(random, history.rate)
    reader.offset = history.commit = history.end if steady else random.randint(history.start, history.end)
    history.readers.append(reader)
    history.begin = history.commit
    history.play(polls)
    return history
