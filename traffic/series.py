"""Bounds the series of a metric: keys that are seen first keep their own, all later ones are added up in others'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")

OTHER: Final = "(other)"
"""The name under which series beyond the bound are added up; no topic can have it."""


class SeriesLimit(Generic[Key]):
    """Returns the key of the series that a key counts in: always the same, as a counter must not move to another."""

    def __init__(self, most: int, other: Callable[[Key], Key]) -> None:
        """Prepare.

        Args:
            most: This many keys have series of their own.
            other: Returns the series of a key beyond them.
        """
        self._most = most
        self._other = other
        self._known: dict[Key, Key] = {}

    def __call__(self, key: Key) -> Key:
        """Return the series."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = key if len(self._known) < self._most else self._other(key)
        return found
