"""What partitions weigh for planning: what reading them across racks costs, and how they load members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

FULL_LOAD: Final = 0.85
"""Members are filled up to this part of what they can read, so that what waits is read as well."""
Rows: TypeAlias = Mapping[str, tuple[int, ...]]
"""A number for each partition, by topic."""


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
        """Copy all."""
        self._rows = MappingProxyType(dict(rows))
        self.loads = MappingProxyType(dict(loads))
        self.capacities = MappingProxyType(dict(capacities))

    def __getitem__(self, topic: str) -> tuple[int, ...]:
        return self._rows[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
