"""Writes the tables of docs/ that list what a registry of the code has: `python -m tests.doc_tables`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from samerack.agent.leading.takeover_attempt import TRANSITIONS
from samerack.agent.policy import EXEMPT, REFUSALS, TRIGGERS
from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.cluster.racks import SOURCES
from tests.docs import pages

_TABLE: Final = re.compile(
    r"^<!-- table (?P<name>[a-z-]+): made by `python -m tests\.doc_tables` -->\n(?P<rows>(?:\|.*\n)*)", re.MULTILINE
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


def _sources_of_racks() -> str:
    return _table(
        {"source in `samerack_member_racks`": "---", "where the rack comes from": "---"},
        ((f"`{name}`", source.text) for name, source in SOURCES.items()),
    )


def _triggers() -> str:
    return _table(
        {"reason": "---", "meaning": "---", "budget": "---"},
        (
            (f"`{reason.value}`", trigger.meaning, "exempt" if reason in EXEMPT else "one each")
            for reason, trigger in TRIGGERS.items()
        ),
    )


def _refusals() -> str:
    return _table(
        {"reason": "---", "meaning": "---"},
        ((f"`{reason.value}`", refusal.meaning) for reason, refusal in REFUSALS.items()),
    )


def _takeover_steps() -> str:
    return _table(
        {"in step": "---", "when": "---", "the agent": "---", "then": "---"},
        (
            (", ".join(step.value for step in row.steps), row.event.value, row.effect, row.then.value)
            for row in TRANSITIONS
        ),
    )


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "assignors-of-plugins": _assignors_of_plugins,
    "refusals": _refusals,
    "sources-of-racks": _sources_of_racks,
    "takeover-steps": _takeover_steps,
    "triggers-and-budget": _triggers,
}
"""Each table by the name in its mark."""


def main() -> None:
    """Rewrites all pages that have such tables."""
    for path in pages():
        page = path.read_text(encoding="utf-8")
        if (anew := replaced(page)) != page:
            path.write_text(anew, encoding="utf-8")


if __name__ == "__main__":
    main()
