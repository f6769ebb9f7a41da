"""Writes the reference of docs/library.md from parameters and first sentences: `python -m tests.api_page`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Final

import samerack

PAGE: Final = Path(__file__).parents[1] / "docs" / "library.md"
_BEGIN: Final = "<!-- reference: made by `python -m tests.api_page` from the docstrings -->\n"


def replaced(page: str) -> str:
    """Return the page with its reference made anew."""
    return page.partition(_BEGIN)[0] + _BEGIN + "\n" + "".join(map(_entry, samerack.__all__))


def _entry(name: str) -> str:
    found = getattr(samerack, name)
    is_error = isinstance(found, type) and issubclass(found, Exception)
    shape = "" if is_error else _parameters(inspect.signature(found))
    summary = " ".join(str(inspect.getdoc(found)).partition("\n\n")[0].split())
    return f"- `{name}{shape}`: {summary}\n"


def _parameters(given: inspect.Signature) -> str:
    """Return the names of the parameters; those after `*` are given by name."""
    shown: list[str] = []
    for parameter in given.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(parameter.name)
    return f"({', '.join(shown)})"


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
