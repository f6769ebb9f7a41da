"""Converts committed offsets to bytes: what one group read since the last poll, by partition, member and replica.

Pure functions on values. A consumer's bytes are the curve between its committed offsets; the envelopes of the fetches,
which no log holds, are added by a model of how often a client fetches. A fetch is answered as soon as one batch is
there, or empty after `fetch.max.wait`; so the time between two answers is the wait for the next batch (cut at the
longest wait) and the time to handle one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Final, TypeAlias

from samerack.traffic.collect import Partition
from samerack.traffic.positions import Span
from samerack.traffic.snapshot import ObservedMember

RESPONSE_BYTES: Final = 18.0
"""Fetch response without partitions; measured with librdkafka 2.16 on Kafka 4.3.0, November 2026."""
PARTITION_BYTES: Final = 48.0
"""Each partition in a fetch response without its records; measured likewise."""
LONGEST_WAIT_SECONDS: Final = 0.5
"""`fetch.max.wait.ms` and `fetch.wait.max.ms`: the default of Java's client and of librdkafka."""
HANDLING_SECONDS: Final = 0.002
"""Round trip within a region and the client's own work; it bounds how often a busy client fetches."""
USUAL_BATCH_BYTES: Final = 16384.0
"""`batch.size` of Java's producer by default: used where no batch could be read."""


def answers_per_second(batches_per_second: float) -> float:
    """Return how often one connection gets a response when its partitions together get these batches per second."""
    if batches_per_second <= 1e-9:
        return 1.0 / (LONGEST_WAIT_SECONDS + HANDLING_SECONDS)
    waited = (1.0 - exp(-batches_per_second * LONGEST_WAIT_SECONDS)) / batches_per_second
    return 1.0 / (waited + HANDLING_SECONDS)


def overhead_bytes(*, partitions: int, batches_per_second: float, seconds: float, sessions: bool) -> float:
    """Return the envelope bytes of one connection in some seconds, from its partitions and the batches in all of them.

    `sessions`: whether the client keeps fetch sessions (KIP-227, Java does), so that responses name only partitions
    with records; librdkafka's responses name all.
    """
    named = min(partitions, 1) if sessions else partitions
    return seconds * answers_per_second(batches_per_second) * (RESPONSE_BYTES + PARTITION_BYTES * named)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedBytes:
    """Bytes of one partition that its reader got: `broker` is None where unknown, `member` where nobody owns it."""

    partition: Partition
    member: ObservedMember | None
    broker: int | None
    wire_bytes: float
    records: int


Serving: TypeAlias = Callable[[Partition, ObservedMember | None], int | None]


def parts_of(
    spans: Sequence[Span],
    size_of: Callable[[Span], float],
    *,
    owners: Mapping[Partition, ObservedMember],
    owners_before: Mapping[Partition, ObservedMember],
    serving: Serving,
) -> list[AttributedBytes]:
    """Compute the bytes of each span, with its reader and the broker that served it.

    What was committed around a rebalance was read by the previous owner: members commit when they revoke a partition,
    and the next owner's first commit comes later.
    """
    parts = []
    for span in spans:
        member = owners_before.get(span.partition) or owners.get(span.partition)
        parts.append(
            AttributedBytes(
                partition=span.partition,
                member=member,
                broker=serving(span.partition, member),
                wire_bytes=size_of(span),
                records=span.end - span.first,
            )
        )
    return parts


def with_overhead(
    parts: Sequence[AttributedBytes],
    *,
    owners: Mapping[Partition, ObservedMember],
    serving: Serving,
    batch_bytes: Mapping[str, float],
    seconds: float,
) -> list[AttributedBytes]:
    """Add the envelopes of fetches to the parts: each connection's are spread over what it reads.

    `owners` fetch now, also partitions without reads at the moment. `batch_bytes` is the average size of a batch by
    topic, `seconds` the time between the two polls.
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
    result = [replace(part, wire_bytes=part.wire_bytes + added.pop(part.partition, 0.0)) for part in parts]
    result += [
        AttributedBytes(
            partition=partition,
            member=owners[partition],
            broker=serving(partition, owners[partition]),
            wire_bytes=extra,
            records=0,
        )
        for partition, extra in added.items()
    ]
    return result
