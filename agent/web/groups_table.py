"""The table of groups on the page of a cluster, and on that of several: sorted, searched, and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import urlencode

from samerack.agent.web.sorted_tables import Order, SortedColumn, Table, table
from samerack.reporting.report import GroupCost

GROUPS_SHOWN: Final = 200
"""Rows of the table; the JSON has the rest."""
_USUAL: Final = "cost"
_PATTERN: Final = frozenset("*?[")
_LONGEST_SEARCH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGroup:
    """One row: a group, the address of its page, its cluster if there are several, and the agent's role in words."""

    group: GroupCost
    address: str
    cluster: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsTable:
    """The table, what was searched for, what else a search keeps of the request, and how many of the groups match."""

    table: Table[ShownGroup]
    search: str
    kept: Mapping[str, str]
    matching: int
    groups: int


def _largest_first(value: float | None) -> Order:
    """Return the order by a number: what is not known comes last."""
    return (value is None, -(value or 0.0))


_COLUMNS: Final[Mapping[str, SortedColumn[ShownGroup]]] = {
    "group": SortedColumn(title="Group", order=lambda one: (one.group.group,)),
    "cluster": SortedColumn(title="Cluster", order=lambda one: (one.cluster,)),
    "agent": SortedColumn(title="Agent", order=lambda one: (one.role,)),
    "reads": SortedColumn(title="Reads", order=lambda one: _largest_first(one.group.bytes_per_second), number=True),
    "share": SortedColumn(title="Across racks", order=lambda one: _largest_first(one.group.share), number=True),
    "optimal": SortedColumn(title="optimal", order=lambda one: _largest_first(one.group.optimal_share), number=True),
    "random": SortedColumn(title="random", order=lambda one: _largest_first(one.group.random_share), number=True),
    "cost": SortedColumn(title="A month", order=lambda one: _largest_first(one.group.dollars_per_month), number=True),
    "saved": SortedColumn(
        title="Saved", order=lambda one: _largest_first(one.group.saved_dollars_per_month), number=True
    ),
}
OF_ONE: Final = {name: column for name, column in _COLUMNS.items() if name != "cluster"}
OF_SEVERAL: Final = {name: column for name, column in _COLUMNS.items() if name not in ("agent", "saved")}
"""Without what is saved, as an agent of several clusters leads no group."""


def groups_table(
    shown: Sequence[ShownGroup], columns: Mapping[str, SortedColumn[ShownGroup]], asked: Mapping[str, str]
) -> GroupsTable:
    """Return the table of all groups, given the most expensive first.

    The request may ask for `sort`, the name of a column; `q`, a part of a group's name, or a shell pattern of all of
    it; `refresh`.
    """
    sort = asked.get("sort", "")
    by = sort if sort in columns else _USUAL
    search = asked.get("q", "").strip()[:_LONGEST_SEARCH]
    found = [one for one in shown if _matches(one.group.group, search)]
    refresh = {"refresh": "on"} if asked.get("refresh") == "on" else {}
    searched = {"q": search} if search else {}

    def address(column: str) -> str:
        return f"./?{urlencode({**searched, 'sort': column, **refresh})}#groups"

    return GroupsTable(
        table=table(found, columns, by=by, address=address, max_rows=GROUPS_SHOWN),
        search=search,
        kept={**({"sort": by} if sort in columns else {}), **refresh},
        matching=len(found),
        groups=len(shown),
    )


def _matches(name: str, search: str) -> bool:
    """Return whether a name contains a text, or matches a pattern, whatever the case."""
    name, search = name.casefold(), search.casefold()
    return fnmatchcase(name, search) if _PATTERN & set(search) else search in name
