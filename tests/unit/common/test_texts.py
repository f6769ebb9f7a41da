"""Lengths of time as users write them."""

from __future__ import annotations

import pytest

from samerack.common.texts import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("30m", 1800), ("2h", 7200), ("1d", 86_400), ("1w", 604_800), (" 1.5h ", 5400)]
)
def test_a_number_with_a_unit_is_read(text: str, seconds: float) -> None:
    """Each unit counts, also with a fraction."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "-5m", "30 m", "1h30m", "5y", "1e3s", "٣m", "9" * 400 + "s"])
def test_anything_else_is_none(text: str) -> None:
    """A missing number or unit, a sign, another unit and too long a number are no length of time."""
    assert seconds_of(text) is None
