"""Writes the reference of docs/library.md from signatures and docstrings: `python -m tests.api_page`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Final

import samerack

PAGE: Final = Path(__file__).parents[1] / "docs" / "library.md"
_WIDTH: Final = 100
_BEGIN: Final = "<!-- reference: made by `python -m tests.api_page` from the docstrings -->\n"


def replaced(page: str) -> str:
    """Returns the page with its reference made anew."""
    return page.partition(_BEGIN)[0] + _BEGIN + "".join(map(_entry, samerack.__all__))


def _entry(name: str) -> str:
    found = getattr(samerack, name)
    shape = "" if isinstance(found, type) and issubclass(found, Exception) else _signature(inspect.signature(found))
    kind = "class" if isinstance(found, type) else "def"
    return f"\n### `{name}`\n\n```text\n{kind} {name}{shape}\n\n{inspect.getdoc(found)}\n```\n"


class _Annotation(str):
    """An annotation whose text is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(given: inspect.Signature) -> str:
    """Returns a signature, with a line for each parameter if it is long."""
    shown: list[str] = []
    for parameter in given.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(str(parameter.replace(annotation=_Annotation(parameter.annotation))))
    returns = given.return_annotation
    end = f") -> {returns}" if isinstance(returns, str) else ")"  # a class has None
    line = f"({', '.join(shown)}{end}"
    return line if len(line) <= _WIDTH else "".join(("(\n", *(f"    {one},\n" for one in shown), end))


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
