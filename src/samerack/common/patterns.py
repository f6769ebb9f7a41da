r"""Shell patterns of names (`*`, `?`, `[...]`), as settings use them for groups, applications and client ids.

In a list of names an entry that begins with `!` leaves out what the others include; one that begins with `\!` stands
for names that begin with `!`. A name that looks like a pattern, such as `orders[prod]`, stands for itself as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from glob import escape
from typing import Final, TypeVar

_SIGNS: Final = frozenset("*?[]")
_EXCLUDES: Final = "!"
_ESCAPE: Final = "\\"
EVERY: Final = "*"
"""Includes every name."""

Value = TypeVar("Value")


def is_pattern(name: str) -> bool:
    """Return whether a name may stand for several, or for what is left out."""
    return bool(_SIGNS & set(name)) or name.startswith((_EXCLUDES, _ESCAPE + _EXCLUDES))


def exactly(name: str) -> str:
    """Return the entry that stands for one name only, whatever signs it has."""
    return f"{_ESCAPE if name.startswith(_EXCLUDES) else ''}{escape(name)}"


def pattern_of(entry: str) -> str:
    """Return the shell pattern of an entry."""
    return entry.removeprefix(_ESCAPE) if entry.startswith(_ESCAPE + _EXCLUDES) else entry


def fits(entry: str, name: str) -> bool:
    """Return whether an entry stands for a name; upper and lower case differ."""
    return name == entry or fnmatchcase(name, pattern_of(entry))


def first_match(patterns: Mapping[str, Value], name: str) -> Value | None:
    """Return the value of the first pattern that fits a name, or None; upper and lower case differ."""
    return next((value for pattern, value in patterns.items() if fits(pattern, name)), None)


def selects(entries: Iterable[str], name: str) -> bool:
    """Return whether some entry includes a name and none leaves it out; the order does not count."""
    included = False
    for entry in entries:
        if not entry.startswith(_EXCLUDES):
            included = included or fits(entry, name)
        elif fits(entry.removeprefix(_EXCLUDES), name):
            return False
    return included


def included(entries: Iterable[str]) -> list[str]:
    """Return the entries that include names, and not those that leave some out."""
    return [entry for entry in entries if not entry.startswith(_EXCLUDES)]


def wrong_selection(entries: Sequence[str]) -> str:
    """Return why entries cannot be meant so; empty if they can."""
    names = included(entries)
    if entries and not names:
        return f"{entries[0]!r} excludes names, but nothing is included; add '*'"
    out = next((name for name in names if not is_pattern(name) and not selects(entries, name)), None)
    return f"{out!r} is both included and excluded; remove one of the two" if out is not None else ""
