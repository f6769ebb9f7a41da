"""Converts byte rates to weights: smoothed, rounded to powers of two, and stable, so that noise moves no partition.

A level is the power of two nearest to the rate, counted from a phase that is common to the rates of a group, so that
similar rates lie in the middle of a level and not at a border. It changes only when the rate is more than a quarter of
a step beyond the border, so a rate that varies around it keeps its level. Few levels keep the assignment engine's
classes few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import atan2, cos, exp, log2, sin, tau
from typing import Final

SMOOTHING_SECONDS: Final = 60.0
"""Time after which an old rate counts for a third."""
LEVELS: Final = 12
"""The least weight stands for rates 2^LEVELS times below the greatest, and for everything below."""
_WEIGHTS: Final = tuple(1 << power for power in range(LEVELS + 1))
"""All weights: each is one object, of which partitions of thousands of groups have one."""
_REACH: Final = 0.75
"""Levels are 1 apart, so their borders lie at 0.5; beyond 0.75 the level changes."""
_MIN_RATE: Final = 1.0


def smooth(before: float | None, measured: float, seconds: float, age: float) -> float:
    """Return the smoothed rate after `seconds` at rate `measured`, after `age` seconds of earlier rates.

    While `age` is short it is the plain average: members commit every few seconds, and the very first poll, which
    sees a commit or none, must not count for a minute.
    """
    if before is None:
        return measured
    share = max(1.0 - exp(-seconds / SMOOTHING_SECONDS), seconds / (age + seconds))
    return before * (1.0 - share) + measured * share


def phase_of(rates: Iterable[float]) -> float:
    """Return where levels begin for a group with these rates, in levels from -0.5 to 0.5.

    It is the circular mean of how far the rates lie beyond powers of two, weighted by rate. So rates that are all
    nearly equal get one level, whatever they are.
    """
    turns = [(rate, tau * log2(rate)) for rate in rates if rate > _MIN_RATE]
    return atan2(sum(rate * sin(turn) for rate, turn in turns), sum(rate * cos(turn) for rate, turn in turns)) / tau


def level_of(rate: float, before: int | None, *, phase: float) -> int:
    """Return the level of a rate in bytes per second, given its level until now and the group's phase."""
    exact = log2(max(rate, _MIN_RATE)) - phase
    if before is not None and abs(exact - before) <= _REACH:
        return before
    return round(exact)


def weights_of(levels: Mapping[str, Sequence[int | None]]) -> dict[str, tuple[int, ...]]:
    """Return the weight of each partition, from 1 to 2^LEVELS, by topic; 1 where the rate is not known."""
    top = max((level for row in levels.values() for level in row if level is not None), default=0)
    return {
        topic: tuple(1 if level is None else _WEIGHTS[max(0, LEVELS - (top - level))] for level in row)
        for topic, row in levels.items()
    }
