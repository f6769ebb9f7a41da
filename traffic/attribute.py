"""Converts committed offsets to bytes: what one group read since the last poll, by partition, member and replica.

Pure functions on values. A consumer's bytes are the curve between its committed offsets; the envelopes of the fetches
are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.model import ObservedMember
from samerack.traffic.overhead import USUAL_BATCH_BYTES, overhead_bytes

NOBODY: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets that a group read in one partition, by its commits: from `first` to before `end`."""

    partition: Partition
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """What committed offsets show: spans, partitions that went back, and owned ones without any commit."""

    spans: tuple[Span, ...]
    rewound: frozenset[Partition]
    uncommitted: frozenset[Partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Bytes of one partition that its reader got: `broker` is None where unknown, `member` where there is none."""

    partition: Partition
    member: ObservedMember | None
    broker: int | None
    wire_bytes: float
    records: int


Serving: TypeAlias = Callable[[Partition, ObservedMember | None], int | None]


def spans_of(
    before: Mapping[Partition, int] | None,
    now: Mapping[Partition, int],
    *,
    owned: Iterable[Partition],
    logs_before: Mapping[Partition, Offsets],
) -> Spans:
    """Compute the spans between two polls of one group.

    The span of a first commit begins where the consumer did: at the log's start where the commit is below the end that
    the log had at the last poll (the consumer reads from the earliest), else at that end.

    Args:
        before: Committed offsets at the last poll; None at the first poll, which shows nothing yet.
        now: Committed offsets now.
        owned: Partitions that have an owner.
        logs_before: First and end offsets at the last poll.
    """
    uncommitted = frozenset(partition for partition in owned if partition not in now)
    if before is None:
        return Spans(spans=(), rewound=frozenset(), uncommitted=uncommitted)
    spans: list[Span] = []
    rewound: list[Partition] = []
    for partition, end in now.items():
        first = before.get(partition)
        if first is None:
            log = logs_before.get(partition)
            if log is None:
                continue
            first = log.start if end < log.end else log.end
        if end > first:
            spans.append(Span(partition=partition, first=first, end=end))
        elif end < first and partition in before:
            rewound.append(partition)
    return Spans(spans=tuple(spans), rewound=frozenset(rewound), uncommitted=uncommitted)


def parts_of(
    spans: Sequence[Span],
    size_of: Callable[[Span], float],
    *,
    owners: Mapping[Partition, ObservedMember],
    owners_before: Mapping[Partition, ObservedMember],
    serving: Serving,
) -> list[Part]:
    """Compute the bytes of each span, with its reader and the broker that served it.

    What was committed around a rebalance was read by the previous owner: members commit when they revoke a partition,
    and the next owner's first commit comes later.
    """
    parts = []
    for span in spans:
        member = owners_before.get(span.partition) or owners.get(span.partition)
        parts.append(
            Part(
                partition=span.partition,
                member=member,
                broker=serving(span.partition, member),
                wire_bytes=size_of(span),
                records=span.end - span.first,
            )
        )
    return parts


def with_overhead(
    parts: Sequence[Part],
    *,
    owners: Mapping[Partition, ObservedMember],
    serving: Serving,
    batch_bytes: Mapping[str, float],
    seconds: float,
) -> list[Part]:
    """Add the envelopes of fetches to the parts: each connection's are spread over what it reads.

    Args:
        parts: Bytes of the log.
        owners: Who fetches what now; partitions without reads at the moment are fetched as well.
        serving: Which broker serves.
        batch_bytes: Average size of a batch, by topic.
        seconds: Time between the two polls.
    """
    if seconds <= 0:
        return list(parts)
    read = {part.partition: part for part in parts}
    connections: dict[tuple[str, int | None], list[Partition]] = {}
    for partition, member in owners.items():
        connections.setdefault((member.id, serving(partition, member)), []).append(partition)
    added: dict[Partition, float] = {}
    for partitions in connections.values():
        sizes = {one: read[one].wire_bytes if one in read else 0.0 for one in partitions}
        batches = sum(size / batch_bytes.get(topic, USUAL_BATCH_BYTES) for (topic, _), size in sizes.items())
        extra = overhead_bytes(
            partitions=len(partitions),
            batches_per_second=batches / seconds,
            seconds=seconds,
            sessions=owners[partitions[0]].sessions,
        )
        whole = sum(sizes.values())
        for one, size in sizes.items():
            added[one] = extra * (size / whole if whole else 1 / len(partitions))
    result = [
        Part(
            partition=part.partition,
            member=part.member,
            broker=part.broker,
            wire_bytes=part.wire_bytes + added.pop(part.partition, 0.0),
            records=part.records,
        )
        for part in parts
    ]
    result += [
        Part(
            partition=partition,
            member=owners[partition],
            broker=serving(partition, owners[partition]),
            wire_bytes=extra,
            records=0,
        )
        for partition, extra in added.items()
    ]
    return result
