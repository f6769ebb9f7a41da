"""Checks and describes values that come from outside. Imports next to nothing, for what must start soon."""

from __future__ import annotations

from typing import Final

_KINDS: Final = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
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
