"""Checks texts that come from outside. Imports nothing, so that what must start soon can use it."""

from __future__ import annotations


def is_utf8(text: str) -> bool:
    """Returns whether a text can be encoded in UTF-8; Python reads invalid bytes from outside as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
