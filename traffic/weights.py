"""Measured byte rates of each group's partitions, and the weights that planning takes from them.

Written by the cycle, read by the leaders' threads between JoinGroup and SyncGroup: memory only, and the same object
while no level changes, so that nothing is computed again for noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from samerack.traffic.attribute import Part
from samerack.traffic.collect import Partition
from samerack.traffic.rates import level_of, phase_of, smooth, weights_of

Weights: TypeAlias = Mapping[str, tuple[int, ...]]
_MIN_SECONDS: Final = 30.0
"""Commits come every five seconds by default, so one more or less of them is a sixth of a rate then: within a level."""


class WeightBook:
    """Rates and weights by group."""

    def __init__(self) -> None:
        self._rates: dict[str, dict[Partition, float]] = {}
        self._levels: dict[str, dict[Partition, int]] = {}
        self._phases: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self._weights: dict[str, Weights] = {}

    def weights(self, group: str) -> Weights | None:
        """Return a group's weights by topic and partition; None while its rates are not known."""
        return self._weights.get(group)

    def rate(self, group: str, partition: Partition) -> float | None:
        """Return the smoothed wire bytes per second."""
        return self._rates.get(group, {}).get(partition)

    def rates(self, group: str) -> Mapping[Partition, float] | None:
        """Return the live rates by partition; None until the group has weights."""
        return self._rates.get(group) if group in self._weights else None

    def measured(self, group: str, parts: Iterable[Part], owned: Iterable[Partition], seconds: float) -> None:
        """Add what was read in one cycle; owned partitions without reads have a rate of 0."""
        if seconds <= 0:
            return
        rates = self._rates.setdefault(group, {})
        sizes = dict.fromkeys(owned, 0.0)
        for part in parts:
            sizes[part.partition] = sizes.get(part.partition, 0.0) + part.wire_bytes
        for partition in [partition for partition in rates if partition not in sizes]:
            del rates[partition]
        age = self._seconds.get(group, 0.0)
        for partition, size in sizes.items():
            rates[partition] = smooth(rates.get(partition), size / seconds, seconds, age)
        self._seconds[group] = age + seconds
        if self._seconds[group] >= _MIN_SECONDS and any(rates.values()):
            self._weigh(group, rates)

    def forget(self, groups: Iterable[str]) -> None:
        """Forget groups that are gone."""
        for group in groups:
            for weights in (self._rates, self._levels, self._phases, self._seconds, self._weights):
                weights.pop(group, None)

    def _weigh(self, group: str, rates: Mapping[Partition, float]) -> None:
        before = self._levels.get(group)
        if before is None:
            self._phases[group] = phase_of(rates.values())
        levels = {
            partition: level_of(rate, before.get(partition) if before is not None else None, phase=self._phases[group])
            for partition, rate in rates.items()
        }
        if levels == before:
            return
        self._levels[group] = levels
        weights = _weights(levels)
        if weights != self._weights.get(group):
            self._weights[group] = weights


def weights_of_rates(rates: Mapping[Partition, float]) -> Weights | None:
    """Return weights from rates alone, without earlier levels; None while nothing is read."""
    if not any(rates.values()):
        return None
    phase = phase_of(rates.values())
    return _weights({partition: level_of(rate, None, phase=phase) for partition, rate in rates.items()})


def _weights(levels: Mapping[Partition, int]) -> Weights:
    rows: dict[str, list[int | None]] = {}
    for (topic, number), level in levels.items():
        row = rows.setdefault(topic, [])
        row.extend([None] * (number + 1 - len(row)))
        row[number] = level
    return MappingProxyType(weights_of(rows))
