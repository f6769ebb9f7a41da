"""What partitions weigh for planning: what reading them across racks costs, and how they load members.

Weights are byte rates rounded to powers of two, so that the assignment engine has few classes. A level is the power of
two nearest to the rate, counted from a phase that is common to the rates of a group, so that similar rates lie in the
middle of a level and not at a border. A level that is known already is kept while the rate is not more than a quarter
of a step beyond the border.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import atan2, cos, log2, sin, tau
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

FULL_LOAD: Final = 0.85
"""Members are filled up to this part of what they can read, so that what waits is read as well."""
Rows: TypeAlias = Mapping[str, tuple[int, ...]]
"""A number for each partition, by topic."""
_Value = TypeVar("_Value", int, float)
LEVELS: Final = 12
"""The least weight stands for rates 2^LEVELS times below the greatest, and for everything below."""
_WEIGHTS: Final = tuple(1 << power for power in range(LEVELS + 1))
"""All weights: each is one object, of which partitions of thousands of groups have one."""
_REACH: Final = 0.75
"""Levels are 1 apart, so their borders lie at 0.5."""
_MIN_RATE: Final = 1.0


class GroupWeights(Mapping[str, tuple[int, ...]]):
    """The weight of each partition, by topic, and the loads of the same time; weights are equal whatever the loads.

    Attributes:
        loads: Bytes per second of each partition, or records per 1,000 seconds: whole numbers, by topic.
        capacities: What each member can read in the same unit, by `member_key`; empty unless that was learned. Plans
            go by it and by loads then, whatever members are balanced by.
    """

    __slots__ = ("_rows", "capacities", "loads")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, rows: Rows, loads: Rows = MappingProxyType({}), capacities: Mapping[str, float] = MappingProxyType({})
    ) -> None:
        self._rows = MappingProxyType(dict(rows))
        self.loads = MappingProxyType(dict(loads))
        self.capacities = MappingProxyType(dict(capacities))

    def __getitem__(self, topic: str) -> tuple[int, ...]:
        return self._rows[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


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
    return before if before is not None and abs(exact - before) <= _REACH else round(exact)


def weights_of(levels: Mapping[str, Sequence[int | None]]) -> dict[str, tuple[int, ...]]:
    """Return the weight of each partition, from 1 to 2^LEVELS, by topic; 1 where the rate is not known."""
    top = max((level for row in levels.values() for level in row if level is not None), default=0)
    return {
        topic: tuple(1 if level is None else _WEIGHTS[max(0, LEVELS - (top - level))] for level in row)
        for topic, row in levels.items()
    }


def weights_of_rates(
    rates: Mapping[tuple[str, int], float], loads: Mapping[tuple[str, int], float] | None = None
) -> GroupWeights | None:
    """Return weights from rates alone, with these loads or the same rates; None where nothing is written."""
    loads = rates if loads is None else loads
    if not any(rates.values()) or not any(loads.values()):
        return None
    phase = phase_of(rates.values())
    return weights_of_levels({partition: level_of(rate, None, phase=phase) for partition, rate in rates.items()}, loads)


def weights_of_levels(levels: Mapping[tuple[str, int], int], loads: Mapping[tuple[str, int], float]) -> GroupWeights:
    """Return weights by topic from the levels of partitions, with loads from rates."""
    return GroupWeights(weights_of(_by_topic(levels)), loads_of(loads))


def loads_of(rates: Mapping[tuple[str, int], float]) -> Rows:
    """Return loads by topic from rates; 0 where the rate is not known."""
    return {topic: tuple(round(rate or 0.0) for rate in row) for topic, row in _by_topic(rates).items()}


def _by_topic(values: Mapping[tuple[str, int], _Value]) -> dict[str, list[_Value | None]]:
    rows: dict[str, list[_Value | None]] = {}
    for (topic, number), value in values.items():
        row = rows.setdefault(topic, [])
        row.extend([None] * (number + 1 - len(row)))
        row[number] = value
    return rows
