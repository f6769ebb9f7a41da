"""Measures how fast each partition is written to, and how sure that is; and how fast groups read their partitions.

What the consumers of a partition read in the long run is what is produced, however rarely they commit. So rates for
planning are `Production`'s, from the growth of logs between polls, and not from commits. What was appended is summed in
blocks of time that all partitions share; the rate is that of the last blocks together, and its error comes from how
much the blocks differ: steady production has a small one, a burst a large one.

`ReadRates` are for people, by commits: between two commits nothing seems to be read, and at a commit all of it at once,
so they are smoothed over several commits. Pure: no I/O, no clock.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, nan
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from samerack.assignors.problem import FloatArray
from samerack.traffic.attribute import AttributedBytes
from samerack.traffic.collect import Partition

if TYPE_CHECKING:
    import numpy.typing as npt

BLOCKS: Final = 8
"""A rate is measured over this number of blocks at most."""
BLOCK_SECONDS: Final = 60.0
"""A whole block. While fewer seconds are known than BLOCKS such blocks, blocks are shorter, so that rates are known
soon."""
_MIN_BLOCKS: Final = 3
"""Two blocks that happen to be alike say little about the error."""
STUDENT: Final = (nan, nan, nan, 2.26, 1.65, 1.43, 1.32, 1.26, 1.21)
"""By the number of blocks: Student's t with one degree of freedom fewer, at two standard errors, divided by two."""
_MIN_PART: Final = 0.25
_AT_ONCE: Final = 10_000
"""Partitions whose rates are computed at once: each needs several times the memory of its blocks meanwhile."""
_NO_ROW: Final = -1
LONGEST_STEP_SECONDS: Final = 120.0
"""In a longer time between two polls (a suspended machine, a broker that does not answer) no rate is measured."""


class Rate(NamedTuple):
    """What was written to a partition in the last minutes.

    Attributes:
        value: Bytes per second, or what else was counted.
        error: The standard error of it, larger by Student's t where it comes from few blocks.
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
        self._partitions: tuple[Partition, ...] = ()
        self._rows: dict[str, array[int]] = {}
        """The row of each partition, by topic and number."""
        self._block_seconds = 0.0
        self._rates: FloatArray | None = None
        """Value, error and seconds by row, not numbers where too little is known; None until they are asked for."""

    @cached_property
    def _seconds(self) -> FloatArray:
        """How long each block is, the oldest first; the last one is filled now."""
        return np.zeros(0)

    @cached_property
    def _blocks(self) -> npt.NDArray[np.float32]:
        """Bytes by partition and block; not a number for blocks that began before the partition was polled."""
        return np.zeros((0, 0), dtype=np.float32)

    def polled(self, partitions: Iterable[Partition], appended: Iterable[float], seconds: float) -> None:
        """Add what was appended in the time since the last poll; other partitions are forgotten.

        Args:
            partitions: Those that were polled before, too.
            appended: Bytes for each of them.
            seconds: The time between the two polls; not positive where it is not known.
        """
        polled = tuple(partitions)
        if not 0 < seconds <= LONGEST_STEP_SECONDS:
            kept = frozenset(polled)
            self._keep(tuple(partition for partition in self._partitions if partition in kept))
            return
        self._keep(polled)
        if not self._seconds.size or self._seconds[-1] >= self._block_seconds:
            self._begin_block()
        self._seconds[-1] += seconds
        self._blocks[:, -1] += np.fromiter(appended, np.float32)

    def rates(self, partitions: Iterable[Partition]) -> dict[Partition, Rate]:
        """Return the rates of those partitions of which they are known."""
        if self._rates is None:
            parts = range(0, max(1, len(self._blocks)), _AT_ONCE)
            self._rates = np.concatenate([_rates(self._blocks[at : at + _AT_ONCE], self._seconds) for at in parts])
        known = [(partition, row) for partition in partitions if (row := self._row(partition)) != _NO_ROW]
        rates = self._rates[[row for _, row in known]].tolist() if known else []
        return {partition: Rate(*rate) for (partition, _), rate in zip(known, rates, strict=True) if rate[0] == rate[0]}

    def _row(self, partition: Partition) -> int:
        topic, number = partition
        rows = self._rows.get(topic, ())
        return rows[number] if number < len(rows) else _NO_ROW

    def _keep(self, partitions: tuple[Partition, ...]) -> None:
        """Have a row for each of these, in their order, and for no other one."""
        self._rates = None
        if partitions == self._partitions:
            return
        blocks = np.full((len(partitions), self._seconds.size), np.nan, dtype=np.float32)
        rows: dict[str, array[int]] = {}
        for row, (topic, number) in enumerate(partitions):
            if (before := self._row((topic, number))) != _NO_ROW:
                blocks[row] = self._blocks[before]
            of_topic = rows.setdefault(topic, array("i"))
            of_topic.extend([_NO_ROW] * (number + 1 - len(of_topic)))
            of_topic[number] = row
        self._partitions, self._rows, self._blocks = partitions, rows, blocks

    def _begin_block(self) -> None:
        if self._seconds.size == BLOCKS:
            if self._block_seconds < BLOCK_SECONDS:  # make each two blocks one, of twice the time
                self._seconds = self._seconds[::2] + self._seconds[1::2]
                self._blocks = self._blocks[:, ::2] + self._blocks[:, 1::2]
                self._block_seconds = min(BLOCK_SECONDS, self._seconds.max())
            else:
                self._seconds, self._blocks = self._seconds[1:], self._blocks[:, 1:]
        self._seconds = np.append(self._seconds, 0.0)
        self._blocks = np.column_stack([self._blocks, np.zeros(len(self._blocks), dtype=np.float32)])


def _rates(blocks: npt.NDArray[np.float32], seconds: FloatArray) -> FloatArray:
    """Return value, error and seconds of each row of blocks; not numbers where too few blocks are known.

    A burst at the border of two blocks is too much for one and too little for the other, and nothing for both: so
    the covariance of neighbours counts too (Newey and West).
    """
    known = ~np.isnan(blocks)
    count = known.sum(axis=1)
    whole = np.where(count >= _MIN_BLOCKS, known @ seconds, np.inf)
    appended = np.where(known, blocks, 0.0).astype(np.float64)
    value = appended.sum(axis=1) / whole
    beyond = appended - known * (value[:, None] * seconds)
    alone = (beyond * beyond).sum(axis=1)
    together = alone + 2.0 * (beyond[:, 1:] * beyond[:, :-1]).sum(axis=1)
    variance = np.maximum(together, _MIN_PART * alone) * count / np.maximum(count - 1, 1)
    error = np.sqrt(variance) / whole * np.array(STUDENT)[count]
    return np.where((whole < np.inf)[:, None], np.column_stack([value, error, whole]), np.nan)


SMOOTHING_SECONDS: Final = 60.0
"""Time after which an old rate counts for a third, where commits are frequent."""
_COMMITS: Final = 5.0
"""Where they are rare, it is the time of this number of commits."""
_FORGET_SECONDS: Final = 3600.0
"""Time after which an old commit counts for a third in the usual time between commits."""


@dataclass(slots=True, kw_only=True)
class _Rates:
    """A group's rates.

    `figures` are [4, P]: the rates, how long they are measured, how often records were committed, and in what time.
    """

    partitions: tuple[Partition, ...] = ()
    figures: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros((4, 0), np.float32))


class ReadRates:
    """Bytes per second by group and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, _Rates] = {}

    def rates(self, group: str) -> Mapping[Partition, float]:
        """Return the smoothed wire bytes per second of a group's partitions, as far as they are known."""
        known = self._groups.get(group)
        return dict(zip(known.partitions, known.figures[0].tolist(), strict=True)) if known is not None else {}

    def measured(
        self, group: str, parts: Iterable[AttributedBytes], owned: Iterable[Partition], seconds: float
    ) -> None:
        """Add what was read in one cycle; owned partitions without reads have a rate of 0."""
        if seconds <= 0:
            return
        known = self._groups.setdefault(group, _Rates())
        sizes = dict.fromkeys(owned, 0.0)
        committed: set[Partition] = set()
        for part in parts:
            sizes[part.partition] = sizes.get(part.partition, 0.0) + part.wire_bytes
            if part.records:
                committed.add(part.partition)
        place = {partition: at for at, partition in enumerate(known.partitions)}
        figures = np.hstack([known.figures, np.zeros((4, 1), np.float32)])  # the last column is of new partitions
        rates, age, commits, passed = figures[:, [place.get(partition, -1) for partition in sizes]]
        kept = exp(-seconds / _FORGET_SECONDS)
        commits = commits * kept + [partition in committed for partition in sizes]
        passed = np.where(commits > 0, passed * kept + seconds, 0.0)
        every = np.maximum(SMOOTHING_SECONDS, _COMMITS * passed / np.maximum(commits, 1.0))
        smoothing = np.where(commits > _COMMITS, every, np.inf)  # all of the time, while there were few commits
        share = np.maximum(seconds / (age + seconds), 1.0 - np.exp(-seconds / smoothing))
        rates = rates * (1.0 - share) + np.fromiter(sizes.values(), np.float32) / seconds * share
        known.partitions = tuple(sizes)
        known.figures = np.array([rates, age + seconds, commits, passed], np.float32)

    def forget(self, groups: Iterable[str]) -> None:
        """Forget groups that are gone."""
        for group in groups:
            self._groups.pop(group, None)
