"""The tables of the pages: groups, members and partitions, sorted by what the request says and bounded; and events.

A heading is a link to the same page in another order, as the page has no scripts. In the list of events all that
belongs to one rebalance or takeover is one row, which unfolds: an event belongs to the open row of its group if it
began soon after the last event there. A row is over with its rebalance; then it takes only what the same generation or
the same takeover brings later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from samerack.agent.group_status import INSIDE
from samerack.common import words
from samerack.events.event import Event, cause, duration, figures, happened, reason
from samerack.reporting.group_lag import GroupLag, MemberLag, PartitionLag, RackLag, largest_first
from samerack.reporting.report import GroupCost

Row = TypeVar("Row")
Order: TypeAlias = tuple[bool | float | int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedColumn(Generic[Row]):
    """One column.

    Attributes:
        order: returns by what its rows are sorted.
        number: whether it shows numbers, of which the largest comes first.
    """

    title: str
    order: Callable[[Row], Order]
    number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnHeading:
    """A heading: its title, the address of the page in this order, and its present order, "" if it has none."""

    title: str
    address: str
    order: str
    number: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[Row]):
    """The first rows in the requested order, and how many more there are."""

    headings: tuple[ColumnHeading, ...]
    rows: tuple[Row, ...]
    more: int


def table(
    rows: Iterable[Row],
    columns: Mapping[str, SortedColumn[Row]],
    *,
    by: str,
    address: Callable[[str], str],
    max_rows: int,
) -> Table[Row]:
    """Return a table, sorted by the column of this name; among equals the order of the rows stays.

    `address` returns the address of the page sorted by a column.
    """
    ordered = sorted(rows, key=columns[by].order)
    return Table(
        headings=tuple(
            ColumnHeading(
                title=column.title,
                address=address(name),
                order="" if name != by else "descending" if column.number else "ascending",
                number=column.number,
            )
            for name, column in columns.items()
        ),
        rows=tuple(ordered[:max_rows]),
        more=max(0, len(ordered) - max_rows),
    )


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


ROWS_SHOWN: Final = 100
"""Rows of each table; of a group with thousands of partitions the JSON has the rest."""
_USUAL_OF_A_GROUP: Final = "lag"
"""Of numbers that are not known comes first what is not known: it may be the largest."""

MEMBERS: Final[Mapping[str, SortedColumn[MemberLag]]] = {
    "member": SortedColumn(title="Member", order=lambda one: (one.client_id, one.member_id)),
    "rack": SortedColumn(title="Rack", order=lambda one: (one.rack or "",)),
    "partitions": SortedColumn(title="Partitions", order=lambda one: largest_first(one.partitions), number=True),
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
    """The tables of a group's racks, members and partitions."""

    racks: tuple[RackLag, ...]
    members: Table[MemberLag]
    partitions: Table[PartitionLag]


def lag_tables(lag: GroupLag, *, sort: str, refresh: bool) -> LagTables:
    """Return the tables, members and partitions sorted by a column if it has that one, else by lag.

    If the page is refreshed, links keep it so.
    """

    def shown(rows: Iterable[Row], columns: Mapping[str, SortedColumn[Row]], place: str) -> Table[Row]:
        return table(
            rows,
            columns,
            by=sort if sort in columns else _USUAL_OF_A_GROUP,
            address=lambda column: f"{group_address(lag.group, sort=column, refresh=refresh)}#{place}",
            max_rows=ROWS_SHOWN,
        )

    return LagTables(
        racks=lag.racks,
        members=shown(lag.members, MEMBERS, "members"),
        partitions=shown(lag.partitions, PARTITIONS, "partitions"),
    )


def known_sort(sort: str) -> str:
    """Return the name of a column as it was requested; "" if there is no such column."""
    return sort if sort in MEMBERS or sort in PARTITIONS else ""


def group_address(group: str, *, sort: str = "", refresh: bool = False) -> str:
    """Return the address of a group's page."""
    sorted_by = f"&sort={sort}" if sort else ""
    return f"group?name={quote(group, safe='')}{sorted_by}{'&refresh=on' if refresh else ''}"


_NEAR_SECONDS: Final = 10.0
"""What begins later than this after the last event of a row, or after the end of its takeover, has another cause."""
_ENDS: Final = {"leads": "took over the lead", "undone": "takeover undone"}
"""The actions that end a takeover, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One row: a single event, or all that belongs to one rebalance or takeover.

    Attributes:
        events: the oldest first.
        mark: the kind of its most important event, by which it is marked.
        what: what happened, in a few words.
        figures: what crossed racks before and after, what moved, and how long it paused, as far as known.
    """

    events: tuple[Event, ...]
    mark: str
    what: str
    why: str
    figures: str

    @property
    def parts(self) -> tuple[EventRow, ...]:
        """Each of its events as a row of its own."""
        return tuple(_row((event,)) for event in self.events)

    @property
    def at(self) -> float:
        """When it was over, in seconds since 1970."""
        return self.events[-1].at

    @property
    def group(self) -> str:
        """Its group; "" where it concerns the agent."""
        return self.events[-1].group


@dataclass(slots=True)
class _Open:
    """A row to which other events may belong."""

    events: list[Event] = field(default_factory=list)

    def takes(self, event: Event) -> bool:
        """Return whether an event that is not older than those in it belongs to it."""
        began = event.at - (event.seconds or 0.0)
        if began - self.events[-1].at > _NEAR_SECONDS:
            return False
        if event.kind == "role":
            return event.action in INSIDE
        if event.kind == "takeover":
            return event.action != "refused" and (event.action != "begin" or not self._is_over())
        if event.kind not in ("plan", "rebalance"):
            return False
        steps = [one for one in self.events if one.kind == "takeover"]
        if steps:
            return steps[-1].action not in _ENDS or began - steps[-1].at <= _NEAR_SECONDS
        same = event.generation is not None and any(one.generation == event.generation for one in self.events)
        return same or event.cause == "second-round" or not self._is_over()

    def _is_over(self) -> bool:
        return bool(_outcomes(self.events))


def event_rows(events: Sequence[Event]) -> tuple[EventRow, ...]:
    """Return the rows of events of any groups; both have the newest first."""
    rows: list[_Open] = []
    last: dict[str, _Open] = {}
    for event in reversed(events):
        row = last.get(event.group)
        if row is None or not row.takes(event):
            row = _Open()
            rows.append(row)
            if _may_begin(event):
                last[event.group] = row
        row.events.append(event)
    return tuple(sorted((_row(tuple(one.events)) for one in rows), key=lambda row: row.at, reverse=True))


def _may_begin(event: Event) -> bool:
    """Return whether other events may belong to it: nothing follows what was refused or suppressed."""
    if event.kind == "decision":
        return event.action == "rebalance"
    return event.kind in ("plan", "rebalance") or (event.kind == "takeover" and event.action != "refused")


def _outcomes(events: Iterable[Event]) -> list[Event]:
    """Return the rebalances after which members had partitions; others were overtaken by the next one."""
    return [event for event in events if event.kind == "rebalance" and event.members is not None]


def _row(events: tuple[Event, ...]) -> EventRow:
    if len(events) == 1:
        (event,) = events
        mark = event.action if event.kind == "decision" else event.kind
        return EventRow(events=events, mark=mark, what=happened(event), why=reason(event), figures=figures(event))
    return EventRow(
        events=events,
        mark="rebalance",
        what=_what(events),
        why=_why(events),
        figures=", ".join(filter(None, (_across(events), _moved(events), _pause(events)))),
    )


def _what(events: tuple[Event, ...]) -> str:
    steps = [event for event in events if event.kind == "takeover"]
    if steps:
        return _ENDS.get(steps[-1].action, "takes over the lead")
    return happened(max(events, key=lambda event: (event.kind == "rebalance", event.kind == "plan", event.at)))


def _why(events: tuple[Event, ...]) -> str:
    for kind in ("takeover", "rebalance", "decision"):
        given = [event for event in events if event.kind == kind]
        if kind == "rebalance":
            texts = [cause(one) for one in given if one.cause != "second-round"]
        else:
            texts = [one.reason for one in reversed(given) if one.reason]
        if texts:
            return texts[0]
    return ""


def _across(events: tuple[Event, ...]) -> str:
    """Return the shares before and after: of what happened, else of the plan, else what was expected."""
    kinds = ("rebalance", "plan", "decision")
    known = [event for kind in kinds for event in events if event.kind == kind and event.share_before is not None]
    before = known[0].share_before if known else None
    known = [
        event for kind in kinds for event in reversed(events) if event.kind == kind and event.share_after is not None
    ]
    after = known[0].share_after if known else None
    return "" if before is after is None else f"across racks {words.percent(before)} > {words.percent(after)}"


def _moved(events: tuple[Event, ...]) -> str:
    outcomes = _outcomes(events)
    moved = [outcome.moved for outcome in outcomes if outcome.moved is not None]
    if not outcomes or len(moved) < len(outcomes):
        return ""
    each = " and ".join(str(number) for number in moved if number) or "0"  # twice may be the same partition
    return f"{each} of {outcomes[-1].partitions} partitions moved"


def _pause(events: tuple[Event, ...]) -> str:
    outcomes = _outcomes(events)
    pauses = [outcome.pause_seconds for outcome in outcomes if outcome.pause_seconds is not None]
    return "" if not outcomes or len(pauses) < len(outcomes) else f"pause {duration(max(pauses))}"
