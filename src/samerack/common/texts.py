"""Checks, parses and describes values that come from outside. Imports next to nothing, for what must start soon."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

_UNITS: Final = MappingProxyType({"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0})
_KINDS: Final = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a map",
}


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded in UTF-8; Python reads invalid bytes from outside as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def kind_of(value: object) -> str:
    """Return what a value of YAML is, in words."""
    return "nothing" if value is None else _KINDS.get(type(value), f"a {type(value).__name__}")


def seconds_of(text: str) -> float | None:
    """Return the seconds of a length of time such as 45s, 30m, 2h, 1d or 1w; None if the text is none."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw])", text.strip())
    return float(found[1]) * _UNITS[found[2]] if found else None
