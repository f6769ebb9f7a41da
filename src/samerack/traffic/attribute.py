"""Converts committed offsets to bytes: what one group read since the last poll, by partition, member and replica.

Pure functions on values. A consumer's bytes are the curve between its committed offsets; the envelopes of the fetches
are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from samerack.traffic.collect import Partition
from samerack.traffic.overhead import USUAL_BATCH_BYTES, overhead_bytes
from samerack.traffic.positions import Span
from samerack.traffic.snapshot import ObservedMember


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedBytes:
    """Bytes of one partition that its reader got: `broker` is None where unknown, `member` where there is none."""

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
