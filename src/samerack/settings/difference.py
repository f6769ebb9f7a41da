"""What differs between two versions of the settings, in words that may be logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from samerack.settings.model import Settings, may_hold_secrets

_HIDDEN: Final = "(not shown)"
_ABSENT: Final = "(not set)"


def difference(before: Settings, now: Settings) -> dict[str, tuple[Any, Any]]:
    """Return each setting that differs, by dotted key, with its value before and now.

    Values of sections that may hold passwords are not shown, only that they differ.
    """
    old, new = (dict(_flat(settings.model_dump(mode="json"))) for settings in (before, now))
    return {
        ".".join(key): (_HIDDEN, _HIDDEN) if may_hold_secrets(key) else (old.get(key, _ABSENT), new.get(key, _ABSENT))
        for key in sorted(old.keys() | new.keys())
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
    }


def _flat(value: Mapping[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _flat(inner, (*place, key))
        else:
            yield (*place, key), inner
