"""Answers of the sources of a pod's rack, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samerack.settings.leading import RackSource

ANSWER_SECONDS: Final = 1.0
"""How long the Kubernetes API or a cloud's metadata service may take for one answer: a pod starts only after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """The answer of one source.

    Attributes:
        zones: all names of the zone, the preferred one first; empty where the source knows nothing.
        detail: what was read, and where it knows nothing, why and what to do.
    """

    source: RackSource
    zones: tuple[str, ...] = ()
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRack:
    """The rack of this pod as the brokers name it, None where no source knows, and the answers of all sources asked."""

    rack: str | None
    source: RackSource | None
    answers: tuple[SourceAnswer, ...]


def rack_of(zones: tuple[str, ...], table: Mapping[str, str]) -> str | None:
    """Return the rack of a zone that has several names: from the table, else the first name."""
    for zone in zones:
        if zone in table:
            return table[zone]
    return zones[0] if zones else None
