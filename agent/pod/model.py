"""What the sources of a pod's rack answer, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.settings import RackSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one source says.

    Attributes:
        source: which.
        zones: the zone by all of its names, the one that counts first; empty where the source knows nothing.
        detail: what was looked at, and where it knows nothing, why and what to do.
    """

    source: RackSource
    zones: tuple[str, ...] = ()
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRack:
    """The rack of this pod.

    Attributes:
        rack: as the brokers name it; None where no source knows.
        source: which source knew.
        answers: what the sources said, in the order in which they were asked.
    """

    rack: str | None
    source: RackSource | None
    answers: tuple[Answer, ...]


def rack_of(zones: tuple[str, ...], table: Mapping[str, str]) -> str | None:
    """The rack of a zone that has several names: as the table has it, else the first name."""
    for zone in zones:
        if zone in table:
            return table[zone]
    return zones[0] if zones else None
