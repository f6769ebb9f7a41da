"""Tables of the page that are sorted by what the request says, and bounded.

A heading is a link to the same page in another order, as the page has no scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

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
