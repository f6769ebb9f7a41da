"""Worlds of steady production: some partitions, a kind of production, and how often logs are polled, by a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import floor, pi, sin, sqrt
from random import Random
from typing import Final, TypeAlias

from samerack.traffic.collect import Partition

KINDS: Final = ("constant", "poisson", "bursts", "daily")
DAY: Final = 86_400.0
_SHIFT: Final = 4.0
Appended: TypeAlias = Mapping[Partition, float]


def parts(count: int) -> list[Partition]:
    """Partitions of one topic."""
    return [("t", number) for number in range(count)]


def true_rates(seed: int, *, shifted: bool = False) -> dict[Partition, float]:
    """Return the bytes per second that each partition of the world gets in the long run."""
    *_, rates = _drawn(Random(seed))  # noqa: S311 - reproducible worlds, not secrets
    if shifted:
        rates[rates.index(max(rates))] *= _SHIFT
    return dict(zip(parts(len(rates)), rates, strict=True))


def polls(seed: int, *, seconds: float, shifted_after: float = float("inf")) -> Iterator[tuple[float, Appended]]:
    """Yield the seconds since the last poll and what was appended to each partition in them.

    From `shifted_after` on, the largest partition has four times its traffic.
    """
    dice = Random(seed)  # noqa: S311 - reproducible worlds, not secrets
    every, rates = _drawn(dice)
    count, kind = len(rates), KINDS[seed % len(KINDS)]
    record = min(rates) / dice.choice([0.5, 5.0, 50.0])  # a partition gets a record in two seconds, or more
    phases = [60 * dice.random() for _ in range(count)]
    largest = rates.index(max(rates))
    now = 0.0
    yield 0.0, dict.fromkeys(parts(count), 0.0)
    while now < seconds:
        before, now = now, now + every * dice.uniform(0.9, 1.1)
        step = now - before
        appended = {}
        for partition, rate, phase in zip(parts(count), rates, phases, strict=True):
            mean = rate * step * (_SHIFT if partition[1] == largest and now > shifted_after else 1)
            if kind == "daily":
                mean *= 1 + sin(2 * pi * now / DAY) / 2
            elif kind == "bursts":
                mean *= 60 / step * (floor((now + phase) / 60) - floor((before + phase) / 60))
            elif kind == "poisson":
                mean = record * max(0, round(dice.gauss(mean / record, sqrt(mean / record))))
            appended[partition] = mean
        yield step, appended


def _drawn(dice: Random) -> tuple[float, list[float]]:
    """Return the seconds between polls, and the bytes per second of each partition."""
    count, every = dice.choice([2, 3, 6, 12, 24]), dice.choice([5.0, 10.0, 30.0])
    return every, [10 ** dice.uniform(5, 6) for _ in range(count)]
