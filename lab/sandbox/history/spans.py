"""Computes from a history when which member owned a partition, and when a partition was not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lab.sandbox.history.history import Finding, History, Kind, Span
from lab.sandbox.members.lines import Partition
from lab.sandbox.members.process import Event


def spans(history: History) -> list[Span]:
    """Return all spans, in order of partition and time."""
    found = [span for name, events in history.members.items() for span in _of_member(name, events)]
    return sorted(found, key=lambda span: (span.partition, span.since_ns, span.until_ns, span.member))


def _of_member(name: str, events: Iterable[Event]) -> Iterable[Span]:
    held: dict[Partition, tuple[int, int]] = {}  # since, generation
    generation, last = -1, 0

    def ended(partition: Partition, until: int) -> Span:
        since, first = held.pop(partition)
        known = None if first < 0 else (first, max(first, generation))
        return Span(member=name, partition=partition, since_ns=since, until_ns=until, generations=known)

    for event in events:
        generation, last = max(generation, event.generation), event.ns
        if event.kind == "assigned":
            for partition in event.partitions:
                held.setdefault(partition, (event.ns, generation))
        elif event.kind in {"revoked", "lost", "closed"}:
            given = held.keys() & event.partitions if event.kind != "closed" else list(held)
            yield from [ended(partition, event.ns) for partition in given]
    yield from [ended(partition, last) for partition in list(held)]


def reads(history: History) -> dict[Partition, list[tuple[Event, str]]]:
    """Return the reads of each partition with their members, in order of time."""
    found: dict[Partition, list[tuple[Event, str]]] = {}
    for name, events in history.members.items():
        for event in events:
            if event.kind == "records":
                for partition in event.partitions:
                    found.setdefault(partition, []).append((event, name))
    for runs in found.values():
        runs.sort(key=lambda run: (run[0].begun_ns, run[0].first))
    return found


def written(history: History) -> dict[Partition, list[Event]]:
    """Return the writes to each partition, in order of offsets."""
    found: dict[Partition, list[Event]] = {}
    for event in history.written:
        for partition in event.partitions:
            found.setdefault(partition, []).append(event)
    for runs in found.values():
        runs.sort(key=lambda event: event.first)
    return found


def stops(history: History, *, min_seconds: float) -> list[Finding]:
    """Return the times longer than `min_seconds` in which a partition had a record to read and was not read.

    A stop starts when the next record was written, or with the previous read if that was later. It ends with any read,
    also of records that had been read before. Where writes were not recorded, there is always a record to read. A stop
    after the last read lasts until the last event of any member.
    """
    end = max((events[-1].ns for events in history.members.values() if events), default=0)
    confirmed = written(history)
    found = []
    for partition, runs in sorted(reads(history).items()):
        when = _Written(confirmed.get(partition, ()))
        free, behind = 0, -1
        for event, _ in runs:
            since = max(free, when.of(behind + 1 if behind >= 0 else event.first))
            if since and event.begun_ns - since > min_seconds * 1e9:
                found.append(_stop(partition, since, event.begun_ns))
            free, behind = max(free, event.ended_ns), max(behind, event.last)
        if behind < when.last:
            since = max(free, when.of(behind + 1))
            if end - since > min_seconds * 1e9:
                found.append(_stop(partition, since, end))
    for partition in confirmed.keys() - reads(history).keys():  # never read at all
        since = confirmed[partition][0].ns
        if end - since > min_seconds * 1e9:
            found.append(_stop(partition, since, end))
    return found


def _stop(partition: Partition, since_ns: int, until_ns: int) -> Finding:
    return Finding(kind=Kind.STOP, partition=partition, since_ns=since_ns, until_ns=until_ns)


class _Written:
    """When records of one partition were written; offsets must be looked up in rising order."""

    def __init__(self, runs: Iterable[Event]) -> None:
        self._runs = list(runs)
        self._at = 0
        self.last = max((run.last for run in self._runs), default=-1)

    def of(self, offset: int) -> int:
        """Return when the run with this offset was confirmed; 0 if that was not recorded."""
        while self._at < len(self._runs) and self._runs[self._at].last < offset:
            self._at += 1
        if self._at == len(self._runs) or self._runs[self._at].first > offset:
            return 0
        return self._runs[self._at].ns


def longest_stop(found: Iterable[Finding], *, since_ns: int, until_ns: int) -> float:
    """Return the longest of these stops, in seconds, that overlaps a time; one that started before it counts whole."""
    overlapping = (stop for stop in found if stop.since_ns <= until_ns and stop.until_ns >= since_ns)
    return max((stop.seconds for stop in overlapping), default=0.0)


def clipped(found: Iterable[Finding], since_ns: int) -> list[Finding]:
    """Return these stops without the parts before a time."""
    return [replace(stop, since_ns=max(stop.since_ns, since_ns)) for stop in found if stop.until_ns > since_ns]


def by_partition(found: Iterable[Span]) -> Mapping[Partition, list[Span]]:
    """Return the spans of each partition, in the order given."""
    grouped: dict[Partition, list[Span]] = {}
    for span in found:
        grouped.setdefault(span.partition, []).append(span)
    return grouped
