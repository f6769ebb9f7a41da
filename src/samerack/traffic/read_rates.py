"""How fast groups read their partitions by their commits, for people: smoothed over several commits.

Between two commits nothing seems to be read, and at a commit all of it at once. Planning does not use these rates; what
is read in the long run is what is produced (`traffic.production`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp
from typing import Final

import numpy as np

from samerack.assignors.problem import FloatArray
from samerack.traffic.attribute import AttributedBytes
from samerack.traffic.collect import Partition

SMOOTHING_SECONDS: Final = 60.0
"""Time after which an old rate counts for a third, where commits are frequent."""
_COMMITS: Final = 5.0
"""Where they are rare, it is the time of so many commits."""
_FORGET_SECONDS: Final = 3600.0
"""Time after which an old commit counts for a third in the usual time between commits."""


@dataclass(slots=True, kw_only=True)
class _Rates:
    """A group's rates, how long they are measured, and how often its partitions were committed in what time."""

    partitions: tuple[Partition, ...] = ()
    figures: FloatArray = field(default_factory=lambda: np.zeros(0))
    age: float = 0.0
    commits: float = 0.0
    partition_seconds: float = 0.0

    @property
    def rates(self) -> dict[Partition, float]:
        """The rates by partition, which are kept as figures only."""
        return dict(zip(self.partitions, self.figures.tolist(), strict=True))

    @property
    def smoothing(self) -> float:
        """Time after which an old rate counts for a third; all of it, while there were few commits."""
        if self.commits <= _COMMITS * len(self.partitions):
            return self.age
        return max(SMOOTHING_SECONDS, _COMMITS * self.partition_seconds / self.commits)


class ReadRates:
    """Bytes per second by group and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, _Rates] = {}

    def rates(self, group: str) -> Mapping[Partition, float]:
        """Return the smoothed wire bytes per second of a group's partitions, as far as they are known."""
        known = self._groups.get(group)
        return known.rates if known is not None else {}

    def measured(
        self, group: str, parts: Iterable[AttributedBytes], owned: Iterable[Partition], seconds: float
    ) -> None:
        """Add what was read in one cycle; owned partitions without reads have a rate of 0."""
        if seconds <= 0:
            return
        known = self._groups.setdefault(group, _Rates())
        before = known.rates
        sizes = dict.fromkeys(owned, 0.0)
        commits = 0
        for part in parts:
            sizes[part.partition] = sizes.get(part.partition, 0.0) + part.wire_bytes
            commits += part.records > 0
        read = sum(before.get(partition, 0.0) > 0 for partition in sizes) if known.age else commits
        kept = exp(-seconds / _FORGET_SECONDS)
        known.commits = known.commits * kept + commits
        known.partition_seconds = known.partition_seconds * kept + max(read, commits) * seconds
        share = seconds / (known.age + seconds)
        if known.smoothing < known.age:
            share = max(share, 1.0 - exp(-seconds / known.smoothing))
        known.partitions = tuple(sizes)
        known.figures = np.array(
            [
                before.get(partition, size / seconds) * (1.0 - share) + size / seconds * share
                for partition, size in sizes.items()
            ]
        )
        known.age += seconds

    def forget(self, groups: Iterable[str]) -> None:
        """Forget groups that are gone."""
        for group in groups:
            self._groups.pop(group, None)
