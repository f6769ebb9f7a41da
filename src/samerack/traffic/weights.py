"""Weights of partitions for planning, from what is written to them: the same until the traffic has lastingly changed.

Written by the cycle, read by the leaders' threads between JoinGroup and SyncGroup: memory only, and the same object
while nothing has changed, so that nothing is computed again for noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import hypot, log, log2, sqrt
from typing import Final

import numpy as np

from samerack.common.weights import GroupWeights, level_of, loads_of, phase_of, weights_of_levels
from samerack.traffic.collect import Partition
from samerack.traffic.throughput import Rate, Rates

_SURE: Final = 0.1
"""The first weights wait until the errors of the rates are at most this part of them, or until no more is to be had."""
_CHANGE: Final = 1.0
"""Two partitions whose traffic is this number of powers of two further apart, or closer, have changed."""
_ERRORS: Final = 2.5
"""... and more than this number of standard errors."""
_SAME: Final = 2.0
"""Two rates that are closer than this number of standard errors may be the same."""
_LOADS: Final = 0.1
"""Loads are taken anew where more than this part of the whole traffic has gone to other partitions, beyond errors."""
_SMALL: Final = 1 / 16
"""A partition with less than this part of the average is as good as empty, and so is one with half of that."""


class _Packed:
    """Rates between two polls: there are two for each partition that a group reads, of hundreds of bytes as objects."""

    __slots__ = ("_figures", "_partitions")

    def __init__(self, rates: Rates) -> None:
        self._partitions = tuple(rates)
        self._figures = np.array(list(rates.values()))

    def rates(self) -> dict[Partition, Rate]:
        return {one: Rate(*row) for one, row in zip(self._partitions, self._figures.tolist(), strict=True)}


@dataclass(slots=True)
class _GroupWeights:
    """One group's rates and weights; `weights` is None until the rates are known well enough.

    `weighed` are the rates that the weights were made from, or the same known better; `levels` are in their order.
    """

    rates: _Packed
    weighed: _Packed = field(default_factory=lambda: _Packed({}))
    levels: tuple[int, ...] = ()
    phase: float = 0.0
    weights: GroupWeights | None = None

    def take(self, rates: Rates, loads: Rates) -> None:
        """Take new rates, and weigh anew by those that have changed or were not whole before; with these loads then."""
        self.rates = _Packed(rates)
        before = self.weighed.rates()
        if not before and not (_are_sure(rates.values()) and _are_sure(loads.values())):
            return
        if not before or have_changed(before, rates):
            self.phase = phase_of(rate.value for rate in rates.values())
            self._weigh(rates, {}, {}, loads)
        elif (weighed := _completed(before, rates)) != before:
            self._weigh(weighed, before, dict(zip(before, self.levels, strict=True)), loads)
        elif (weighed := _sharpened(before, rates)) is not before:
            self.weighed = _Packed(weighed)

    def take_loads(self, loads: Rates) -> None:
        """Take new loads where the traffic has moved."""
        if self.weights is not None and _loads_have_changed(self.weights.loads, loads):
            self.weights = GroupWeights(
                self.weights, loads_of({partition: rate.value for partition, rate in loads.items()})
            )

    def _weigh(self, weighed: Rates, before: Rates, levels: Mapping[Partition, int], loads: Rates) -> None:
        """Make the weights of rates; a partition keeps its level of before while its rate is the same."""
        now = {
            partition: level
            if (level := levels.get(partition)) is not None and rate is before.get(partition)
            else level_of(rate.value, level, phase=self.phase)
            for partition, rate in weighed.items()
        }
        self.weighed, self.levels = _Packed(weighed), tuple(now.values())
        weights = weights_of_levels(now, {partition: rate.value for partition, rate in loads.items()})
        if weights != self.weights and any(rate.value for rate in weighed.values()):
            self.weights = weights


class WeightBook:
    """Rates and weights by group."""

    def __init__(self) -> None:
        self._groups: dict[str, _GroupWeights] = {}

    def weights(self, group: str) -> GroupWeights | None:
        """Return a group's weights by topic and partition; None while its rates are not known."""
        known = self._groups.get(group)
        return known.weights if known is not None else None

    def rates(self, group: str) -> Rates | None:
        """Return what is written to the group's partitions; None until it has weights."""
        known = self._groups.get(group)
        return known.rates.rates() if known is not None and known.weights is not None else None

    def measured(self, group: str, rates: Rates, loads: Rates | None = None) -> None:
        """Take the rates of the partitions that a group owns, as far as they are known.

        `loads` are what its members are balanced by: the same rates, or those of records; None where counts decide.
        """
        if rates:
            known = self._groups.setdefault(group, _GroupWeights(_Packed(rates)))
            known.take(rates, loads or rates)
            if loads:
                known.take_loads(loads)

    def forget(self, groups: Iterable[str]) -> None:
        """Forget groups that are gone."""
        for group in groups:
            self._groups.pop(group, None)


def have_changed(before: Rates, now: Rates) -> bool:
    """Return whether the traffic of some partition has changed against that of another, beyond what is uncertain.

    What all partitions do alike, such as a curve of day and night, is not a change: weights are relative.
    """
    both = [(rate, now[partition]) for partition, rate in before.items() if partition in now]
    floor_before = _SMALL * sum(first.value for first, _ in both) / max(1, len(both))
    floor_now = _SMALL * sum(second.value for _, second in both) / max(1, len(both))
    if not floor_before or not floor_now:
        return bool(floor_before or floor_now)
    changes = [max(second.value, floor_now) / max(first.value, floor_before) for first, second in both]
    least, most = min(changes), max(changes)
    apart = log2(most / least)
    if apart <= _CHANGE:
        return False
    variance = sum(
        _variance(first, floor_before) + _variance(second, floor_now)
        for first, second in (both[changes.index(least)], both[changes.index(most)])
    )
    return apart > _CHANGE + _ERRORS * sqrt(variance)


def _loads_have_changed(loads: Mapping[str, tuple[int, ...]], now: Rates) -> bool:
    """Return whether partitions have other parts of the group's traffic than by these loads, beyond what is uncertain.

    What all partitions do alike, such as a curve of day and night, is not a change.
    """
    if not all(rate.whole for rate in now.values()):
        return False
    pairs = [
        (float(row[number]) if (row := loads.get(topic)) is not None and number < len(row) else 0.0, rate)
        for (topic, number), rate in now.items()
    ]
    before, whole = sum(load for load, _ in pairs), sum(rate.value for _, rate in pairs)
    if not before or not whole:
        return bool(before or whole)
    moved = sum(max(0.0, abs(rate.value / whole - load / before) - _SAME * rate.error / whole) for load, rate in pairs)
    return moved > 2 * _LOADS


def _variance(rate: Rate, floor: float) -> float:
    """Return the variance of a rate in powers of two, squared."""
    return (rate.error / max(rate.value, floor) / log(2)) ** 2


def _completed(before: Rates, now: Rates) -> dict[Partition, Rate]:
    """Return the rates that weights were made from for the partitions of now; where only now is whole, that of now."""
    return {
        partition: rate if (known := before.get(partition)) is None or (not known.whole and rate.whole) else known
        for partition, rate in now.items()
    }


def _sharpened(before: dict[Partition, Rate], now: Rates) -> dict[Partition, Rate]:
    """Return the rates of before; where the same rate is known with half of the error now, that of now.

    Weights stay. A change is found by the errors of both, and what was known badly at first would hide it.
    """
    better = {
        partition: rate
        for partition, known in before.items()
        if (rate := now[partition]).error < known.error / 2
        and abs(rate.value - known.value) <= _SAME * hypot(rate.error, known.error)
    }
    return {**before, **better} if better else before


def _are_sure(rates: Iterable[Rate]) -> bool:
    known = list(rates)
    whole, error = sum(rate.value for rate in known), sum(rate.error for rate in known)
    return whole > 0 and (error <= _SURE * whole or all(rate.whole for rate in known))
