"""Keeps the partitions of a group's snapshot as rows of numbers; each object is made when it is read.

There are hundreds of thousands of partitions, and the last snapshot is there until the next one is published. As
objects with their numbers they take four times as much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import isnan
from typing import Final

import numpy as np

from samerack.traffic.snapshot import PartitionTraffic

_NONE: Final = -1
"""For None: no offset and no lag is negative."""


class PartitionRows(Collection[PartitionTraffic]):
    """The partitions of one group."""

    __slots__ = ("_keys", "_numbers", "_readers", "_records")

    def __init__(self, partitions: Collection[PartitionTraffic]) -> None:
        """Keep what these have."""
        shared: dict[tuple[str | None, int | None, str | None], tuple[str | None, int | None, str | None]] = {}
        readers = ((one.member, one.serving_broker, one.serving_rack) for one in partitions)
        self._keys = tuple(one.partition for one in partitions)
        self._readers = tuple(shared.setdefault(reader, reader) for reader in readers)
        self._records = np.array(
            [
                [_NONE if count is None else count for count in (one.lag_records, one.readable_records, one.committed)]
                for one in partitions
            ],
            dtype=np.int64,
        )
        # None gets not a number
        self._numbers = np.array(
            [(one.bytes_per_second, one.written_per_second, one.lag_seconds) for one in partitions], dtype=np.float64
        )

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._keys)

    def __contains__(self, partition: object) -> bool:
        """Whether one of them is as this one."""
        return any(one == partition for one in self)

    def __iter__(self) -> Iterator[PartitionTraffic]:
        """Make them."""
        rows = zip(self._keys, self._readers, self._records.tolist(), self._numbers.tolist(), strict=True)
        for key, (member, broker, rack), records, numbers in rows:
            lag, readable, committed = (None if count == _NONE else count for count in records)
            read, written, seconds = (None if isnan(number) else number for number in numbers)
            yield PartitionTraffic(
                partition=key,
                member=member,
                serving_broker=broker,
                serving_rack=rack,
                bytes_per_second=read,
                written_per_second=written,
                lag_records=lag,
                lag_seconds=seconds,
                readable_records=readable,
                committed=committed,
            )
