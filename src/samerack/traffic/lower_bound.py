"""Sums and largest values of which some parts are not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound(Generic[Number]):
    """What is known of the lag of some partitions.

    Attributes:
        value: The sum or the largest of what is known; None where nothing is.
        unknown: Partitions that are not known; with 0 the value is exact.
    """

    value: Number | None = None
    unknown: int = 0


Part: TypeAlias = Number | LowerBound[Number] | None
"""One partition's lag, None if not known, or the bound of several."""
