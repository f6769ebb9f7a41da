"""Pages for people: the templates of a room, over what all rooms' pages look like."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from common import words


def environment(room: str) -> Environment:
    """The room's templates and the common ones, escaping whatever they are given."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(room), PackageLoader("common")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(size=words.size, money=words.money, percent=words.percent, span=words.span)
    return made
