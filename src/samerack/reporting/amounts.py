"""Sums of amounts of which some are not known: None is what is not known, and 0 what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def total_of(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def lower_bound(values: Iterable[Number | None], *, is_whole: bool) -> Number | None:
    """Return the sum of what is known; None if that is nothing, or 0 where something else is not known."""
    known = total_of(values)
    return known if known or is_whole else None


def is_whole(unknown_bytes: int | None, unmeasured_groups: int) -> bool:
    """Return whether sums over groups have all that may have crossed racks."""
    return not unknown_bytes and not unmeasured_groups


def total_if_known(values: Iterable[Number | None]) -> Number | None:
    """Return the sum; None if one of the values is not known."""
    values = list(values)
    return None if None in values else total_of(values)
