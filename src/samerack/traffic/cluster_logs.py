"""Polls the logs of all topics of the cluster, internal ones included, for what replication and producers carry.

What the cycle has just polled for groups is taken over; only the rest is requested, some thousand partitions at a time,
so that neither a request nor what is in memory grows with the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.cluster.placement import Placements, all_placements
from samerack.cluster.wire import Wire
from samerack.common.errors import AgentError
from samerack.traffic import collect
from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.curve import Curve
from samerack.traffic.gaps import failed
from samerack.traffic.log_growth import UNKNOWN, Logs
from samerack.traffic.snapshot import Family, Gap

if TYPE_CHECKING:
    import numpy.typing as npt

_AT_ONCE: Final = 20_000
"""Partitions in turn: what their responses take in memory."""


def poll(
    wire: Wire, brokers: Collection[int], curves: Mapping[Partition, Curve], logs: Mapping[Partition, Offsets]
) -> tuple[Logs | None, list[Gap]]:
    """Poll size and offsets of every partition's leader.

    `curves` and `logs` are partitions that were polled for groups, and their offsets at the last poll: a curve that
    does not end there is from an earlier one. Return the logs, None if the topics could not be listed, and gaps.

    Raises:
        AgentError: No broker can be reached any more.
    """
    try:
        placed = all_placements(wire)
    except AgentError as error:
        return None, [failed(Family.METADATA, "all topics", error)]
    size, start, end = np.full((3, len(placed.placement)), UNKNOWN, dtype=np.int64)
    for (topic, number), curve in curves.items():
        offsets, rows = logs.get((topic, number)), placed.rows.get(topic, range(0))
        extent = curve.extent
        if offsets is not None and offsets.end == extent.end and number < len(rows):
            row = rows[number]
            size[row], start[row], end[row] = extent.size_bytes, extent.start, extent.end
    gaps: list[Gap] = []
    for led in _chunks(placed, brokers, size < 0):
        sizes, missing = collect.log_sizes(wire, led, collect.plain_key)
        gaps += missing
        polled, missing = collect.offsets(wire, led, collect.plain_key)
        gaps += missing
        for partition, offsets in polled.items():
            row = placed.rows[partition[0]][partition[1]]
            size[row], start[row], end[row] = sizes.get(partition, UNKNOWN), offsets.start, offsets.end
    return Logs(placed=placed, size=size, start=start, end=end), gaps


def _chunks(
    placed: Placements, brokers: Collection[int], unpolled: npt.NDArray[np.bool_]
) -> Iterator[dict[int, list[Partition]]]:
    """Yield the missing partitions that have a leader by leader, some at a time."""
    led: dict[int, list[Partition]] = {}
    count = 0
    leaders = [replicas[0] for replicas in placed.brokers]
    for topic, rows in placed.rows.items():
        for number, row in enumerate(rows):
            leader = leaders[placed.placement[row]]
            if unpolled[row] and leader in brokers:
                led.setdefault(leader, []).append((topic, number))
                count += 1
        if count >= _AT_ONCE:
            yield led
            led, count = {}, 0
    if led:
        yield led
