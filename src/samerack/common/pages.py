"""The template environment of web pages: a package's templates, with the common ones."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from samerack.common import words


def environment(room: str) -> Environment:
    """Return an environment with the package's templates and the common ones; all values are escaped."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(f"samerack.{room}"), PackageLoader("samerack.common")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(size=words.size, money=words.money, percent=words.percent, span=words.span)
    return made
