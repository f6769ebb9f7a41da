"""Computes what a group read from the lines of all its members: records read twice, missing records, and pauses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.sandbox.members.lines import Partition
from lab.sandbox.members.process import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a group read of one partition."""

    distinct: int  # offsets read at least once
    read_twice: int  # reads beyond the first of an offset
    missing: int  # offsets between the first and the last that no member read
    first: int  # offset
    last: int


def readings(events: Iterable[Event]) -> dict[Partition, Reading]:
    """Return what was read of each partition, from the events of all members that the group ever had."""
    runs: dict[Partition, list[tuple[int, int]]] = {}
    for event in events:
        if event.kind == "records":
            for partition in event.partitions:
                runs.setdefault(partition, []).append((event.first, event.last))
    return {partition: _reading(sorted(found)) for partition, found in runs.items()}


def _reading(runs: Sequence[tuple[int, int]]) -> Reading:
    first = covered = runs[0][0]
    distinct = total = 0
    for start, last in runs:
        total += last - start + 1
        distinct += max(0, last + 1 - max(start, covered))
        covered = max(covered, last + 1)
    return Reading(
        distinct=distinct,
        read_twice=total - distinct,
        missing=covered - first - distinct,
        first=first,
        last=covered - 1,
    )


def read_twice(events: Iterable[Event]) -> int:
    """Return how many reads of a group were of records already read."""
    return sum(reading.read_twice for reading in readings(events).values())


def longest_pauses(events: Iterable[Event], *, since_ms: int, until_ms: int) -> dict[Partition, float]:
    """Return the longest time, in seconds, in which no member read each partition, cut at both ends of a period."""
    times: dict[Partition, list[int]] = {}
    for event in events:
        if event.kind == "records":
            for partition in event.partitions:
                seen = times.setdefault(partition, [since_ms, until_ms])
                if since_ms <= event.ms <= until_ms:
                    seen.append(event.ms)
    pauses: dict[Partition, float] = {}
    for partition, seen in times.items():
        seen.sort()
        pauses[partition] = max(later - earlier for earlier, later in pairwise(seen)) / 1000
    return pauses
