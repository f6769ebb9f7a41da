"""The terminal output of commands: lines, and tables of columns that fit.

Both are safe against control characters in external names: a client id, topic or group may be any text, with escape
sequences that move the cursor, recolour a line, or write to the clipboard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import rich.console
from rich import box
from rich.table import Table
from rich.text import Text

from samerack.common.words import UNKNOWN, plain

USUAL: Final = 80
"""Columns of most terminals: tables in narrower ones show less."""
WIDE: Final = 110
"""Columns of a terminal from which on tables show more."""


class Console(rich.console.Console):
    """rich's console without markup: text in brackets or colons is shown literally, and numbers have no colours.

    Control characters except line ends are shown as U+FFFD. Use a `Text` for colours. A line with a command between
    backticks is left to the terminal to wrap: what is copied from it is one line.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """Print as rich does."""
        has_command = any("`" in str(one) for one in objects if isinstance(one, (str, Text)))
        super().print(*objects, soft_wrap=has_command if soft_wrap is None else soft_wrap, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a line or a table's cell."""
        return super().render_str("\n".join(map(plain, text.split("\n"))), **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of figures, which stay on one line at the right, or of names, which are folded where too long."""

    title: str
    cells: Sequence[str]
    number: bool = False
    from_width: int = 0  # from how many columns of the terminal on it is shown
    optional: bool = False  # whether it is left out where no row has something in it


def table_of(columns: Iterable[Column], *, width: int) -> Table:
    """Return a table for a terminal of this width: columns that it has no room for are left out, and no name is cut."""
    shown = [
        column
        for column in columns
        if width >= column.from_width and not (column.optional and all(cell == UNKNOWN for cell in column.cells))
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
