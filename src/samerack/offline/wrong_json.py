"""How a JSON question that is none is refused: one line with the key and what is wrong with it."""

from __future__ import annotations

from pydantic import ValidationError


def explained(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors()[0]
    where = f"key {'.'.join(map(str, first['loc']))!r}" if first["loc"] else "question"
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"
