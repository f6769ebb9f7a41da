"""Finds what was wrong in a history: a pure function, in time n log n of the number of events.

It does not report what Kafka does not promise: a member that was stopped beyond its session still believes that it owns
partitions that another member got in a later generation, and records read since the last commit may be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lab.sandbox.history.history import Bounds, Finding, History, Kind, Span
from lab.sandbox.history.spans import by_partition, reads, spans, stops, written
from lab.sandbox.members.lines import Partition
from lab.sandbox.members.process import Event


def check(history: History, bounds: Bounds) -> list[Finding]:
    """Return all findings in the history of one group, in order of time."""
    owned = by_partition(spans(history))
    found = [
        *_owned_twice(owned.values()),
        *_unowned(history, owned.values(), bounds),
        *_skipped(history),
        *_read_again(history, owned.values()),
        *stops(history, min_seconds=bounds.stop),
        *_forgotten(history),
    ]
    return sorted(found, key=lambda finding: (finding.since_ns, finding.kind, finding.partition))


def _owned_twice(owned: Iterable[Sequence[Span]]) -> Iterator[Finding]:
    """Yield spans of different members that overlap in time and, if their clients report it, in a generation."""
    for found in owned:
        open_: list[Span] = []
        for span in found:
            open_ = [other for other in open_ if other.until_ns > span.since_ns]
            for other in open_:
                if other.member != span.member and _share_a_generation(other, span):
                    yield Finding(
                        kind=Kind.OWNED_TWICE,
                        partition=span.partition,
                        since_ns=span.since_ns,
                        until_ns=min(span.until_ns, other.until_ns),
                        members=(other.member, span.member),
                    )
            open_.append(span)


def _share_a_generation(one: Span, other: Span) -> bool:
    if one.generations is None or other.generations is None:
        return True
    return max(one.generations[0], other.generations[0]) <= min(one.generations[1], other.generations[1])


def _unowned(history: History, owned: Iterable[Sequence[Span]], bounds: Bounds) -> Iterator[Finding]:
    """Yield the times between the spans of a partition, and from its last span to the last event of any member."""
    end = max((events[-1].ns for events in history.members.values() if events), default=0)
    for found in owned:
        covered, partition = found[0].since_ns, found[0].partition
        for since, until in [*((span.since_ns, span.until_ns) for span in found), (end, end)]:
            if since - covered > bounds.unowned * 1e9:
                yield Finding(kind=Kind.UNOWNED, partition=partition, since_ns=covered, until_ns=since)
            covered = max(covered, until)


def _skipped(history: History) -> Iterator[Finding]:
    """Yield offsets that no member read, of those written; without a record of these, up to the last one read."""
    found, confirmed = reads(history), written(history)
    for partition in sorted(found.keys() | confirmed.keys()):
        runs = [event for event, _ in found.get(partition, ())]
        expected = confirmed.get(partition) or _whole(runs)
        for first, last, ns in _missing(runs, expected):
            yield Finding(kind=Kind.SKIPPED, partition=partition, since_ns=ns, until_ns=ns, offsets=(first, last))


def _whole(runs: Sequence[Event]) -> list[Event]:
    last = max(runs, key=lambda run: run.last)
    return [Event(kind="written", ms=last.ms, ns=last.ns, first=min(run.first for run in runs), last=last.last)]


def _missing(runs: Sequence[Event], expected: Sequence[Event]) -> Iterator[tuple[int, int, int]]:
    """Yield first and last offset and time of each range of expected offsets that is in no run."""
    ordered = sorted(runs, key=lambda run: run.first)
    at, covered = 0, -1
    for want in expected:
        needed = max(want.first, covered + 1)
        while needed <= want.last:
            while at < len(ordered) and ordered[at].first <= needed:
                covered = max(covered, ordered[at].last)
                at += 1
            if covered >= needed:
                needed = covered + 1
                continue
            last = want.last if at == len(ordered) else min(want.last, ordered[at].first - 1)
            yield needed, last, want.ns
            needed = last + 1


def _read_again(history: History, owned: Iterable[Sequence[Span]]) -> Iterator[Finding]:
    """Yield reads of an owner below the offset committed when it became the owner, or below its own last read."""
    commits = _commits(history)
    runs = reads(history)
    for found in owned:
        partition = found[0].partition
        for member in sorted({span.member for span in found}):
            own = [event for event, name in runs.get(partition, ()) if name == member]
            spans = [span for span in found if span.member == member]
            for number, span in enumerate(spans):
                # the last reads may be printed after the partition was revoked: they count to the previous span
                until = spans[number + 1].since_ns if number + 1 < len(spans) else None
                read = [run for run in own if run.begun_ns >= span.since_ns and (until is None or run.begun_ns < until)]
                committed = _in_force(commits.get(partition, ()), span.since_ns)
                yield from _below(read, committed, member=member, partition=partition)


def _below(runs: Sequence[Event], committed: int, *, member: str, partition: Partition) -> Iterator[Finding]:
    for run in runs:
        if run.first < committed:
            yield Finding(
                kind=Kind.READ_AGAIN,
                partition=partition,
                since_ns=run.begun_ns,
                until_ns=run.ended_ns,
                members=(member,),
                offsets=(run.first, min(run.last, committed - 1)),
            )
        committed = max(committed, run.last + 1)


def _commits(history: History) -> dict[Partition, list[tuple[int, int]]]:
    """Return time and offset of the commits of each partition, in order of time."""
    found: dict[Partition, list[tuple[int, int]]] = {}
    for events in history.members.values():
        for event in events:
            for partition, offset in (event.offsets or {}).items():
                found.setdefault(partition, []).append((event.ns, offset))
    for commits in found.values():
        commits.sort()
    return found


def _in_force(commits: Sequence[tuple[int, int]], at: int) -> int:
    """Return the last offset committed before a time; 0 if there is none."""
    return next((offset for ns, offset in reversed(commits) if ns < at), 0)


def _forgotten(history: History) -> Iterator[Finding]:
    """Yield confirmed offsets that the coordinator later does not have, or has a lower one for."""
    commits = _commits(history)
    for kept in history.kept:
        found = kept.offsets or {}
        for partition, committed in sorted(commits.items()):
            before = [offset for ns, offset in committed if ns < kept.ns]
            has = found.get(partition, -1)
            if before and has < before[-1]:
                yield Finding(
                    kind=Kind.FORGOTTEN,
                    partition=partition,
                    since_ns=kept.ns,
                    until_ns=kept.ns,
                    offsets=(has, before[-1]),
                )
