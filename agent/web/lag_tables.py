"""The tables of a group's page that show its members and its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from samerack.agent.web.sorted_tables import Row, SortedColumn, Table, table
from samerack.reporting.group_lag import GroupLag, MemberLag, PartitionLag, largest_first

ROWS_SHOWN: Final = 100
"""Rows of each table; of a group with thousands of partitions the JSON has the rest."""
_USUAL: Final = "lag"
"""Of numbers that are not known comes first what is not known: it may be the largest."""

MEMBERS: Final[Mapping[str, SortedColumn[MemberLag]]] = {
    "member": SortedColumn(title="Member", order=lambda one: (one.client_id, one.member_id)),
    "rack": SortedColumn(title="Rack", order=lambda one: (one.rack or "",)),
    "partitions": SortedColumn(title="Partitions", order=lambda one: (-one.partitions,), number=True),
    "reads": SortedColumn(title="Reads", order=lambda one: largest_first(one.bytes_per_second), number=True),
    "lag": SortedColumn(
        title="records not read yet",
        order=lambda one: largest_first(one.lag_records, one.lag_unknown_partitions),
        number=True,
    ),
    "age": SortedColumn(
        title="age of the oldest",
        order=lambda one: largest_first(one.lag_seconds, one.lag_seconds_unknown_partitions),
        number=True,
    ),
}
PARTITIONS: Final[Mapping[str, SortedColumn[PartitionLag]]] = {
    "partition": SortedColumn(title="Partition", order=lambda one: (one.topic, one.partition)),
    "member": SortedColumn(title="Member", order=lambda one: (one.client_id or "", one.member_id or "")),
    "rack": SortedColumn(title="Rack", order=lambda one: (one.rack or "",)),
    "lag": SortedColumn(title="records not read yet", order=lambda one: largest_first(one.lag_records), number=True),
    "age": SortedColumn(title="age of the oldest", order=lambda one: largest_first(one.lag_seconds), number=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LagTables:
    """The tables of a group's members and of its partitions."""

    members: Table[MemberLag]
    partitions: Table[PartitionLag]


def lag_tables(lag: GroupLag, *, sort: str, refresh: bool) -> LagTables:
    """Return the tables, each sorted by a column if it has that one, else by lag.

    If the page is refreshed, links keep it so.
    """

    def shown(rows: Iterable[Row], columns: Mapping[str, SortedColumn[Row]], place: str) -> Table[Row]:
        return table(
            rows,
            columns,
            by=sort if sort in columns else _USUAL,
            address=lambda column: f"{group_address(lag.group, sort=column, refresh=refresh)}#{place}",
            max_rows=ROWS_SHOWN,
        )

    return LagTables(
        members=shown(lag.members, MEMBERS, "members"), partitions=shown(lag.partitions, PARTITIONS, "partitions")
    )


def known_sort(sort: str) -> str:
    """Return the name of a column as it was requested; "" if there is no such column."""
    return sort if sort in MEMBERS or sort in PARTITIONS else ""


def group_address(group: str, *, sort: str = "", refresh: bool = False) -> str:
    """Return the address of a group's page."""
    sorted_by = f"&sort={sort}" if sort else ""
    return f"group?name={quote(group, safe='')}{sorted_by}{'&refresh=on' if refresh else ''}"
