"""Tables of commands: columns that the terminal has no room for are left out, and no name in the others is cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from samerack.common.words import UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of figures, which stay on one line at the right, or of names, which are folded where too long."""

    title: str
    cells: Sequence[str]
    number: bool = False
    from_width: int = 0  # from how many columns of the terminal on it is shown
    optional: bool = False  # whether it is left out where no row has something in it


def table_of(columns: Iterable[Column], *, width: int) -> Table:
    """Return a table for a terminal of this width."""
    shown = [
        one
        for one in columns
        if width >= one.from_width and not (one.optional and all(cell == UNKNOWN for cell in one.cells))
    ]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for one in shown:
        if one.number:
            table.add_column(one.title, justify="right", no_wrap=True)
        else:
            table.add_column(one.title, overflow="fold")
    for cells in zip(*(one.cells for one in shown), strict=True):
        table.add_row(*cells)
    return table
