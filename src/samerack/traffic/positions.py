"""What a group read in a partition between two polls of its committed offset, and what is not counted, and why.

What was read lies between two positions that are known, as far as the log had it. All else is named, and never a
guess: where a reader began before its first commit, offsets that a tool moved, records that were deleted before anybody
is known to have read them. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.snapshot import Uncounted

_MAX_RECORDS_PER_SECOND: Final = 50_000_000
"""More than any client reads of one partition: a larger step within the time between two polls is no reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets that a group read in one partition, by its commits: from `first` to before `end`."""

    partition: Partition
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Records of one partition that are not counted: so many at most."""

    partition: Partition
    why: Uncounted
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSpans:
    """What committed offsets show.

    Attributes:
        spans: What was read.
        left: What is not counted.
        rewound: Partitions whose offset went back.
        uncommitted: Owned partitions without a commit.
    """

    spans: tuple[Span, ...] = ()
    left: tuple[Left, ...] = ()
    rewound: frozenset[Partition] = frozenset()
    uncommitted: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Polls:
    """Two polls of one group and its logs.

    Attributes:
        before: Committed offsets at the last poll; None at the first one, which shows nothing yet.
        now: Committed offsets now.
        owned_before: Partitions that had an owner at the last poll.
        owned: Partitions that have one now.
        logs_before: First and end offsets at the last poll.
        logs: The same now.
        bare: Partitions whose commit changed, and now has no leader epoch.
        commits_have_epochs: Whether all of the group's consumers commit with leader epochs, as far as was seen.
        without_members: Whether the group never has members: what commits to it reads on its own, as Flink does.
        seconds: The time between the two polls.
    """

    before: Mapping[Partition, int] | None
    now: Mapping[Partition, int]
    owned_before: AbstractSet[Partition] = frozenset()
    owned: AbstractSet[Partition] = frozenset()
    logs_before: Mapping[Partition, Offsets] = field(default_factory=dict)
    logs: Mapping[Partition, Offsets] = field(default_factory=dict)
    bare: AbstractSet[Partition] = frozenset()
    commits_have_epochs: bool = False
    without_members: bool = False
    seconds: float = 0.0


def spans_of(polls: Polls) -> CommitSpans:
    """Compute what was read between two polls of one group.

    | between the polls | read | not counted |
    |---|---|---|
    | the first commit of a partition whose log was empty at the last poll | all of it | |
    | the first commit of another partition | | at most what the log had below it |
    | the offset grew | between the two offsets | |
    | ... and the log's start passed the offset of the last poll | from that start on | what was deleted |
    | ... in a partition that nobody owned at either poll, without a leader epoch | | moved |
    | ... without a leader epoch, where the group's consumers commit with one | | moved |
    | ... from a partition that nobody owned at the last poll, by more than any client can read since | | moved |
    | the offset went back | | what is read again until it is passed; it counts from the new offset on |

    Tools commit without a leader epoch, and only while the group is empty; consumers since Kafka 2.1 and librdkafka 2.1
    commit with the epoch of the last record that they have read. Of a group that never has members nothing is known but
    its offsets: where they grow, that was read.
    """
    uncommitted = frozenset(partition for partition in polls.owned if partition not in polls.now)
    if polls.before is None:
        return CommitSpans(uncommitted=uncommitted)
    spans: list[Span] = []
    left: list[Left] = []
    for partition, end in polls.now.items():
        before, log = polls.before.get(partition), polls.logs_before.get(partition)
        if before is None:
            if log is None or log.start < log.end or log.end > end:
                known = log or polls.logs.get(partition)
                if known is not None and end > known.start:
                    left.append(Left(partition=partition, why=Uncounted.BEGIN_UNKNOWN, records=end - known.start))
                continue
            before = log.end
        if end <= before:
            continue
        if _was_moved(polls, partition, end - before):
            left.append(Left(partition=partition, why=Uncounted.MOVED, records=end - before))
            continue
        start = polls.logs[partition].start if partition in polls.logs else before
        first = min(max(before, start), end)
        if first > before:
            left.append(Left(partition=partition, why=Uncounted.DELETED, records=first - before))
        if end > first:
            spans.append(Span(partition=partition, first=first, end=end))
    rewound = frozenset(one for one, before in polls.before.items() if polls.now.get(one, before) < before)
    return CommitSpans(spans=tuple(spans), left=tuple(left), rewound=rewound, uncommitted=uncommitted)


def _was_moved(polls: Polls, partition: Partition, records: int) -> bool:
    """Return whether an offset grew without reading."""
    if polls.without_members:
        return False
    bare = partition in polls.bare
    if partition not in polls.owned_before:
        if partition not in polls.owned and (bare or not polls.commits_have_epochs):
            return True
        if polls.seconds > 0 and records > polls.seconds * _MAX_RECORDS_PER_SECOND:
            return True
    return bare and polls.commits_have_epochs


def named(left: Iterable[Left]) -> dict[Uncounted, int]:
    """Return the records that are not counted, by reason."""
    sums: dict[Uncounted, int] = {}
    for one in left:
        sums[one.why] = sums.get(one.why, 0) + one.records
    return sums
