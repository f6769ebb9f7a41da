"""What a group read in its partitions between two polls of its committed offsets, and what is not counted, and why.

Three bounds hold for every step of an offset, whatever wrote it. The log: nothing counts that it did not have between
two known ends, and nothing twice unless the reader is known to have gone back. The past: who reads what is written, or
as fast as before, is believed at once; steps that are far beyond that count when four in a row are alike. The
network: no step is faster than a host can receive or a broker can send. All else is named, and never a guess. Pure: no
I/O, no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.snapshot import Uncounted

_NATURAL_GROWTH: Final = 2
"""A step is believed up to this multiple of what was written since the last one: what is read in the long run."""
_NATURAL_STEPS: Final = 4
"""... and to this multiple of the last step: between two polls there are none, one or two commits."""
_HELD_SECONDS: Final = 600.0
"""A step that no other one confirms within this time, and within four of its own, was none that was read."""
_ALIKE_STEPS: Final = 4
"""A reader that catches up makes this number of steps in a row that are about as long; jumps are fewer."""
_MIN_RECORD_BYTES: Final = 25.0
"""No client reads more records per second than its network can carry at this number of bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets that a group read in one partition, by its commits: from `first` to before `end`."""

    partition: Partition
    first: int
    end: int


class Held(NamedTuple):
    """Steps in a row that are not believed yet: their offsets, how many, and the seconds since the one before them."""

    first: int
    end: int
    steps: int
    seconds: float

    def is_like(self, step: _Step) -> bool:
        """Return whether a step goes on from these, and is about as long; a reader may have rested before the first."""
        now, before = step.records * self.steps, self.end - self.first
        return self.end == step.first and before <= _NATURAL_STEPS * now and now <= _NATURAL_STEPS * before


class Position(NamedTuple):
    """How far a group is in one partition.

    Attributes:
        committed: Its commit.
        offset: The same, cut at the end of the log: the next step begins here.
        counted: What lies below is not counted again while nobody owns the partition.
        at: When the commit was first seen, in monotonic seconds.
        end: The end of the log then; None where it was not known.
        step: How many records the last step had that was believed.
        held: Steps before `offset` that wait to be confirmed.
    """

    committed: int
    offset: int
    counted: int
    at: float
    end: int | None
    step: int = 0
    held: Held | None = None


Positions: TypeAlias = Mapping[Partition, Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSpans:
    """What committed offsets show.

    Attributes:
        spans: What was read.
        left: Records that are not counted, at most, by reason.
        rewound: Partitions whose offset went back.
        uncommitted: Owned partitions without a commit.
        positions: Where the group is now; None if that was never known.
    """

    spans: tuple[Span, ...] = ()
    left: Mapping[Uncounted, int] = field(default_factory=dict)
    rewound: frozenset[Partition] = frozenset()
    uncommitted: frozenset[Partition] = frozenset()
    positions: Positions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Polls:
    """Two polls of one group and its logs.

    Attributes:
        before: Where the group was at the last poll; None at the first one, which shows nothing yet.
        now: Committed offsets now. A partition that is neither in it nor `unanswered` has no commit any more.
        at: When the offsets were polled, in monotonic seconds.
        unanswered: Partitions whose commit could not be requested this time; they go on from their last ones.
        owned_before: Partitions that had an owner at the last poll.
        owned: Partitions that have one now.
        logs_before: First and end offsets at the last poll.
        logs: The same now, polled after the offsets.
        bare: Partitions whose commit changed, and now has no leader epoch.
        commits_have_epochs: Whether all of the group's consumers commit with leader epochs, as far as was seen.
        without_members: Whether the group never has members: what commits to it reads on its own, or copies offsets.
        reads_alone: Whether the group is known to be read without members, as Flink does.
        carriers: What carries a partition's records: its owner, its leader.
        record_bytes: The usual bytes of a partition's record; 0 where not known.
        network: What one host can send or receive, in bytes per second.
    """

    before: Positions | None
    now: Mapping[Partition, int]
    at: float = 0.0
    unanswered: Collection[Partition] = ()
    owned_before: AbstractSet[Partition] = frozenset()
    owned: AbstractSet[Partition] = frozenset()
    logs_before: Mapping[Partition, Offsets] = field(default_factory=dict)
    logs: Mapping[Partition, Offsets] = field(default_factory=dict)
    bare: AbstractSet[Partition] = frozenset()
    commits_have_epochs: bool = False
    without_members: bool = False
    reads_alone: bool = False
    carriers: Callable[[Partition], Iterable[Hashable]] = lambda _partition: ()
    record_bytes: Callable[[Partition], float] = lambda _partition: 0.0
    network: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A step that may have been read: `first` to before `end`, of which `grown` records were written meanwhile."""

    partition: Partition
    before: Position
    first: int
    end: int
    grown: int
    seconds: float

    @property
    def records(self) -> int:
        return self.end - self.first

    @property
    def natural(self) -> bool:
        return self.records <= _NATURAL_GROWTH * self.grown + _NATURAL_STEPS * self.before.step


def spans_of(polls: Polls) -> CommitSpans:
    """Compute what was read between two polls of one group.

    | between the polls | read | not counted |
    |---|---|---|
    | the first commit of a partition that had an owner while its log was empty | all of it | |
    | another first commit, or the first after it had none | | begin-unknown: at most what the log had below it |
    | the offset grew | between the two offsets | |
    | ... beyond the end of the log | to the end | beyond-end |
    | ... from beyond the end of the log | | begin-unknown |
    | ... and the log's start passed the offset of the last poll | from that start on | deleted |
    | ... in a partition that nobody owned at either poll, without a leader epoch | | moved |
    | ... without a leader epoch, where the group's consumers commit with one | | moved |
    | ... without one in a group that never has members, and is not known to be read so | | no-reader |
    | ... in a partition without an owner, below an offset that was counted | | several-positions |
    | ... far beyond what is usual, and not confirmed by the next steps, or faster than a network | | moved |
    | the offset went back | it counts from the new offset on, if it has an owner | |

    Tools commit without a leader epoch, and only while the group is empty; consumers since Kafka 2.1 and librdkafka 2.1
    commit with the epoch of the last record that they have read.
    """
    uncommitted = frozenset(partition for partition in polls.owned if partition not in polls.now)
    if polls.before is None:
        positions = {one: _begin(polls, one, committed) for one, committed in polls.now.items()}
        return CommitSpans(uncommitted=uncommitted, positions=positions)
    found = _Found(polls, polls.before)
    for partition, committed in polls.now.items():
        found.add(partition, committed)
    for partition in polls.before.keys() - polls.now.keys():
        if partition in polls.unanswered:
            found.positions[partition] = polls.before[partition]
        else:
            found.reject(polls.before[partition].held)
    found.decide()
    return CommitSpans(
        spans=tuple(found.spans),
        left=found.left,
        rewound=frozenset(found.rewound),
        uncommitted=uncommitted,
        positions=found.positions,
    )


def _begin(polls: Polls, partition: Partition, committed: int) -> Position:
    log = polls.logs.get(partition)
    end = log.end if log is not None else None
    offset = committed if end is None else min(committed, end)
    return Position(committed=committed, offset=offset, counted=offset, at=polls.at, end=end)


class _Found:
    """What one poll shows, partition by partition."""

    def __init__(self, polls: Polls, before: Positions) -> None:
        self._polls = polls
        self._before = before
        self._steps: list[_Step] = []
        self.spans: list[Span] = []
        self.left: Counter[Uncounted] = Counter()
        self.rewound: list[Partition] = []
        self.positions: dict[Partition, Position] = {}

    def add(self, partition: Partition, committed: int) -> None:
        """Add the commit of a partition."""
        polls, before, log = self._polls, self._before.get(partition), self._polls.logs.get(partition)
        if before is None:
            before = self._first(partition, committed)
        elif committed == before.committed or log is None:  # without its end a step has no bound, and waits
            self.positions[partition] = self._waiting(before)
            return
        if before is None or log is None:
            self.positions[partition] = _begin(polls, partition, committed)
            return
        reach = min(committed, log.end)
        self._leave(Uncounted.BEYOND_END, committed - max(reach, before.committed))
        owned = partition in polls.owned or partition in polls.owned_before
        if reach <= before.offset:
            self.reject(before.held)
            again = log.end < before.offset
            if again:  # another log
                self._leave(Uncounted.BEGIN_UNKNOWN, reach - log.start)
            if reach < before.offset:
                self.rewound.append(partition)
            counted = reach if owned or again else before.counted
            self.positions[partition] = self._at(before, committed, reach, log.end)._replace(counted=counted)
            return
        self.positions[partition] = self._at(before, committed, reach, log.end)
        first = before.offset
        # a commit that was beyond the end says not where its reader went on
        why = Uncounted.BEGIN_UNKNOWN if before.committed > before.offset else self._not_read(partition)
        if why is not None:
            self.reject(before.held)
            self._leave(why, reach - first)
            return
        first = self._skip(first, min(log.start, reach), Uncounted.DELETED)
        if not owned:
            first = self._skip(first, min(before.counted, reach), Uncounted.SEVERAL_POSITIONS)
        if reach > first:
            grown = max(0, log.end - before.end) if before.end is not None else 0
            seconds = polls.at - before.at
            self._steps.append(
                _Step(partition=partition, before=before, first=first, end=reach, grown=grown, seconds=seconds)
            )
        else:
            self.reject(before.held)

    def decide(self) -> None:
        """Believe the steps, hold them, or reject them."""
        too_fast = self._too_fast()
        for step in self._steps:
            partition, held, position = step.partition, step.before.held, self.positions[step.partition]
            if held is not None and not held.is_like(step):
                self.reject(held)
                held = None
            first, steps, seconds = step.first, 1, step.seconds
            if held is not None:
                first, steps, seconds = held.first, held.steps + 1, held.seconds + step.seconds
            held = Held(first=first, end=step.end, steps=steps, seconds=seconds)
            if partition in too_fast:
                self.reject(held)
            elif steps >= _ALIKE_STEPS or step.natural:
                self.spans.append(Span(partition=partition, first=first, end=step.end))
                self.positions[partition] = position._replace(step=step.records)
            else:
                self.positions[partition] = position._replace(held=held)

    def reject(self, held: Held | None) -> None:
        """Name steps that were held, and are not confirmed."""
        if held is not None:
            self._leave(Uncounted.MOVED, held.end - held.first)

    def _first(self, partition: Partition, committed: int) -> Position | None:
        """Return where a partition without a commit was, if its owner had an empty log; else name what is unknown."""
        log, now = self._polls.logs_before.get(partition), self._polls.logs.get(partition)
        if log is not None and log.start == log.end <= committed and partition in self._polls.owned_before:
            return Position(committed=log.end, offset=log.end, counted=log.end, at=self._polls.at, end=log.end)
        if (known := log or now) is not None:
            end = min(committed, now.end) if now is not None else committed
            self._leave(Uncounted.BEGIN_UNKNOWN, end - known.start)
        return None

    def _waiting(self, before: Position) -> Position:
        held = before.held
        if held is None or self._polls.at - before.at <= max(_HELD_SECONDS, _NATURAL_STEPS * held.seconds):
            return before
        self.reject(held)
        return before._replace(held=None)

    def _at(self, before: Position, committed: int, reach: int, end: int) -> Position:
        counted = max(before.counted, reach)
        return Position(committed, reach, counted, at=self._polls.at, end=end, step=before.step)

    def _leave(self, why: Uncounted, records: int) -> None:
        if records > 0:
            self.left[why] += records

    def _skip(self, first: int, to: int, why: Uncounted) -> int:
        """Leave out what lies below an offset, and return where the rest begins."""
        self._leave(why, to - first)
        return max(first, to)

    def _not_read(self, partition: Partition) -> Uncounted | None:
        """Return why an offset grew without reading."""
        polls, bare = self._polls, partition in self._polls.bare
        if polls.reads_alone:
            return None
        if polls.without_members:
            return Uncounted.NO_READER if bare else None
        unowned = partition not in polls.owned_before and partition not in polls.owned
        if (unowned and (bare or not polls.commits_have_epochs)) or (bare and polls.commits_have_epochs):
            return Uncounted.MOVED
        return None

    def _too_fast(self) -> set[Partition]:
        """Return the partitions whose steps a reader or a broker cannot have carried, beyond what was just written."""
        carried: dict[Hashable, list[tuple[_Step, float]]] = {}
        for step in self._steps:
            size = step.records * self._record_bytes(step.partition)
            for carrier in (step.partition, *self._polls.carriers(step.partition)):
                carried.setdefault(carrier, []).append((step, size))
        beyond: set[Partition] = set()
        for steps in carried.values():
            if sum(size for _, size in steps) > self._polls.network * max(step.seconds for step, _ in steps):
                beyond |= {step.partition for step, _ in steps if step.records > step.grown}
        return beyond

    def _record_bytes(self, partition: Partition) -> float:
        return max(_MIN_RECORD_BYTES, self._polls.record_bytes(partition))
