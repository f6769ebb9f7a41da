"""Measures how fast each partition is written to, and how sure that is, from the growth of logs between polls.

What the consumers of a partition read in the long run is what is produced, however rarely they commit. So rates for
planning come from here, and not from commits. What was appended is summed in blocks of time that all partitions share;
the rate is that of the last blocks together, and its error comes from how much the blocks differ: steady production
has a small one, a burst a large one. Pure: no I/O, no clock.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Final, TypeAlias

from samerack.traffic.collect import Partition

BLOCKS: Final = 8
"""A rate is that of so many blocks at most."""
BLOCK_SECONDS: Final = 60.0
"""A whole block. While fewer seconds are known than BLOCKS such blocks, blocks are shorter, so that rates are known
soon."""
_MIN_BLOCKS: Final = 3
"""Two blocks that happen to be alike say little about the error."""
_MIN_PART: Final = 0.25
_LONGEST_STEP_SECONDS: Final = 120.0
"""What was appended in a longer time between two polls (a suspended machine) belongs to no block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What was written to a partition in the last minutes.

    Attributes:
        value: Bytes per second.
        error: The standard error of it.
        seconds: The time that it was measured in.
    """

    value: float
    error: float
    seconds: float

    @property
    def whole(self) -> bool:
        """Whether it was measured as long as rates ever are."""
        return self.seconds >= (BLOCKS - 1) * BLOCK_SECONDS


Rates: TypeAlias = Mapping[Partition, Rate]


class Production:
    """What was appended to partitions in the last minutes."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque()
        """How long each block is, the oldest first; the last one is filled now."""
        self._blocks: dict[Partition, array[float]] = {}
        """The bytes of the last blocks of each partition, as many as were polled of it."""
        self._block_seconds = 0.0

    def polled(self, appended: Mapping[Partition, float], seconds: float) -> None:
        """Add what was appended in the time since the last poll; partitions that are not in it are forgotten.

        Args:
            appended: Bytes; a partition that was not polled before must not be in it.
            seconds: The time between the two polls; not positive where it is not known.
        """
        for partition in [partition for partition in self._blocks if partition not in appended]:
            del self._blocks[partition]
        if not 0 < seconds <= _LONGEST_STEP_SECONDS:
            return
        for partition in appended.keys() - self._blocks.keys():
            self._blocks[partition] = array("d")
        if not self._seconds or self._seconds[-1] >= self._block_seconds:
            self._begin_block()
        self._seconds[-1] += seconds
        for partition, size in appended.items():
            blocks = self._blocks[partition]
            if blocks:  # one that came within a block begins with the next
                blocks[-1] += size

    def rate(self, partition: Partition) -> Rate | None:
        """Return the rate of a partition; None while too little is known of it."""
        blocks = self._blocks.get(partition)
        if blocks is None or len(blocks) < _MIN_BLOCKS:
            return None
        seconds = list(self._seconds)[-len(blocks) :]
        whole = sum(seconds)
        value = sum(blocks) / whole
        return Rate(value=value, error=_error(list(blocks), seconds, value), seconds=whole)

    def rates(self, partitions: Iterable[Partition]) -> dict[Partition, Rate]:
        """Return the rates of those partitions of which they are known."""
        return {partition: rate for partition in partitions if (rate := self.rate(partition)) is not None}

    def _begin_block(self) -> None:
        if len(self._seconds) == BLOCKS:
            if self._block_seconds < BLOCK_SECONDS:
                self._merge()
            else:
                self._seconds.popleft()
                for blocks in self._blocks.values():
                    if len(blocks) == BLOCKS:
                        blocks.pop(0)
        self._seconds.append(0.0)
        for blocks in self._blocks.values():
            blocks.append(0.0)

    def _merge(self) -> None:
        """Make each two blocks one, of twice the time."""
        lengths = list(self._seconds)
        self._seconds = deque(first + second for first, second in zip(lengths[::2], lengths[1::2], strict=True))
        for partition, blocks in self._blocks.items():
            kept = blocks[len(blocks) % 2 :]  # without half a block of a partition that came in its second half
            self._blocks[partition] = array("d", map(sum, zip(kept[::2], kept[1::2], strict=True)))
        self._block_seconds = min(BLOCK_SECONDS, max(self._seconds))


def _error(blocks: list[float], seconds: list[float], value: float) -> float:
    """Return the standard error of a rate from how much its blocks differ from it.

    A burst at the border of two blocks is too much for one and too little for the other, and nothing for both: so
    the covariance of neighbours counts too (Newey and West).
    """
    beyond = [size - length * value for size, length in zip(blocks, seconds, strict=True)]
    alone = sum(one * one for one in beyond)
    together = alone + 2.0 * sum(one * other for one, other in pairwise(beyond))
    return sqrt(max(together, _MIN_PART * alone) * len(blocks) / (len(blocks) - 1)) / sum(seconds)
