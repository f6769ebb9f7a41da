"""Writes what pages list of the code: `python -m tests.doc_tables`.

These are tables of registries and the reference in docs/, and tests/promises.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import samerack
from samerack.agent.leading.takeover_attempt import TRANSITIONS
from samerack.assignors.consumer.registry import ASSIGNORS
from tests import promises
from tests.docs import pages

_TABLE: Final = re.compile(
    r"^<!-- table (?P<name>[a-z-]+): made by `python -m tests\.doc_tables` -->\n\n?(?P<rows>(?:[|-] ?.*\n)*)",
    re.MULTILINE,
)


def replaced(page: str) -> str:
    """Return the page with its tables made anew."""
    return _TABLE.sub(lambda found: found[0].removesuffix(found["rows"]) + TABLES[found["name"]](), page)


def _table(columns: Mapping[str, str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; `columns` are titles and alignments."""
    lines = (tuple(columns), *rows)
    head, *rest = (f"| {' | '.join(cells)} |\n" for cells in lines)
    return head + f"|{'|'.join(columns.values())}|\n" + "".join(rest)


def _assignors_of_plugins() -> str:
    return _table(
        {"name": "---", "kafka-python": ":-:", "aiokafka": ":-:", "what it does": "---"},
        (
            (f"`{one.name}`", "yes", "no" if one.cooperative else "yes", one.about)
            for one in ASSIGNORS.values()
            if one.for_members
        ),
    )


def _takeover_steps() -> str:
    return _table(
        {"in step": "---", "when": "---", "the agent": "---", "then": "---"},
        (
            (", ".join(step.value for step in row.steps), row.event.value, row.effect, row.then.value)
            for row in TRANSITIONS
        ),
    )


def _reference() -> str:
    """Return a list, not a table: names and first sentences."""
    return "".join(f"- `{name}{_parameters(getattr(samerack, name))}`: {_summary(name)}\n" for name in samerack.__all__)


def _summary(name: str) -> str:
    return " ".join(str(inspect.getdoc(getattr(samerack, name))).partition("\n\n")[0].split())


def _parameters(found: Callable[..., object]) -> str:
    """Return the names of the parameters; those after `*` are given by name."""
    if isinstance(found, type) and issubclass(found, Exception):
        return ""
    shown: list[str] = []
    for parameter in inspect.signature(found).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(parameter.name)
    return f"({', '.join(shown)})"


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "assignors-of-plugins": _assignors_of_plugins,
    "reference": _reference,
    "takeover-steps": _takeover_steps,
}
"""Each table by the name in its mark."""


def main() -> None:
    """Rewrites all pages that have such tables, and the list of promises."""
    promises.PAGE.write_text(promises.page(), encoding="utf-8")
    for path in pages():
        page = path.read_text(encoding="utf-8")
        if (anew := replaced(page)) != page:
            path.write_text(anew, encoding="utf-8")


if __name__ == "__main__":
    main()
