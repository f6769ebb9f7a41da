"""Cuts what clients report to what the logs can have given them, by the sizes that brokers describe.

A group can have read each partition once from its beginning to its end, what was written since, and the envelopes of
its fetches. Twice all of it counts, for what no log shows: batches that are cut off and fetched again, and data that is
fetched and dropped. Commits that go back allow a partition to be read from its beginning once more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from samerack.traffic.collect import Partition
from samerack.traffic.curve import Curve, bytes_between
from samerack.traffic.overhead import PARTITION_BYTES, RESPONSE_BYTES
from samerack.traffic.statistics import Read

_SLACK: Final = 2.0
_FREE: Final = (float(4 << 20), 10_000.0)
"""Bytes and records beyond the logs: metadata of a large cluster, and partitions owned between two polls only."""
_FREE_SECONDS: Final = 60.0
"""In this time as many records are free again."""
_RESPONSES_PER_SECOND: Final = 100.0
"""This many envelopes count: `fetch.wait.max.ms` may be far below its default."""


@dataclass(slots=True, kw_only=True)
class _Left:
    """Bytes and records that may still be read of one partition, as its log was when it ended at `end`."""

    end: int
    amounts: list[float]


class LogBounds:
    """What the clients of one group may still report: every log may be read once."""

    def __init__(self) -> None:
        self._logs: dict[Partition, _Left] = {}
        self._beyond = list(_FREE)

    def rewound(self, partitions: Collection[Partition]) -> None:
        """Reset partitions in which the group's commits went back: they may be read from their beginning again."""
        for partition in partitions:
            self._logs.pop(partition, None)

    def cut(self, reads: Sequence[Read], curves: Mapping[Partition, Curve], *, seconds: float) -> list[Read]:
        """Return what one member read in some seconds, cut to what the logs had left, which decreases by that.

        The logs of `curves` were polled after the report. All partitions of a report are cut alike: clients count bytes
        by broker, and how these are split over partitions is estimated.
        """
        named = {read.partition for read in reads}
        logs = [self._refilled(partition, curves[partition]).amounts for partition in sorted(named & curves.keys())]
        envelopes = seconds * _RESPONSES_PER_SECOND * (RESPONSE_BYTES + PARTITION_BYTES * len(named))
        more = (_SLACK * envelopes, _FREE[1] * seconds / _FREE_SECONDS)
        self._beyond = [min(free, left) + new for free, left, new in zip(_FREE, self._beyond, more, strict=True)]
        reported = (sum(read.wire_bytes for read in reads), float(sum(read.records for read in reads)))
        wire_bytes, records = (_taken(logs, self._beyond, which, amount) for which, amount in enumerate(reported))
        return [
            replace(read, wire_bytes=read.wire_bytes * wire_bytes, records=int(read.records * records))
            for read in reads
        ]

    def _refilled(self, partition: Partition, curve: Curve) -> _Left:
        """Add what was written since the last time; what was left is at most the whole log."""
        # the size alone does not include tiered segments
        records = curve.extent.end - curve.extent.start
        whole = (_SLACK * max(float(curve.extent.size_bytes), records * curve.density), _SLACK * records)
        left, end = self._logs.get(partition), curve.extent.end
        if left is None or left.end > end:  # another log
            left = _Left(end=end, amounts=list(whole))
        else:
            written = (bytes_between(curve, left.end, end), float(end - left.end))
            left.amounts = [
                min(most, before) + _SLACK * new for most, before, new in zip(whole, left.amounts, written, strict=True)
            ]
            left.end = end
        self._logs[partition] = left
        return left


def _taken(logs: Sequence[list[float]], beyond: list[float], which: int, reported: float) -> float:
    """Take bytes or records from what is left, first from the logs; return which share of the report was there."""
    of_logs = sum(left[which] for left in logs)
    there = min(reported, of_logs + beyond[which])
    share = min(1.0, there / of_logs) if of_logs else 0.0
    for left in logs:
        left[which] *= 1.0 - share
    beyond[which] -= max(0.0, there - of_logs)
    return there / reported if reported else 1.0
