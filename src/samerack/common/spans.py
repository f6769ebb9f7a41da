"""Parses a length of time as users write it, such as 45s, 30m, 2h or 1d."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

_UNITS: Final = MappingProxyType({"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0})


def seconds_of(text: str) -> float | None:
    """Return the seconds of a number with a unit (s, m, h, d, w); None if the text is no such length."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw])", text.strip())
    return float(found[1]) * _UNITS[found[2]] if found else None
