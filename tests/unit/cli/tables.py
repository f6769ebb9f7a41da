"""Reads the tables of commands as a reader does: cells, also those that are folded into several lines."""

from __future__ import annotations

from io import StringIO

from rich.table import Table

from samerack.common.console import Console


def lines_of(table: Table, width: int) -> list[str]:
    """The lines of a table on a terminal of this width."""
    console = Console(width=width, file=StringIO(), record=True)
    console.print(table)
    return console.export_text().splitlines()


def cells_of(table: Table, width: int, *, figure: str) -> list[list[str]]:
    """The heading and the rows, each cell in one piece; the table fits the terminal.

    Columns lie between two blanks that all lines have, and a row begins with a line that has a figure in this column.
    """
    lines = [line.ljust(width) for line in lines_of(table, width)]
    assert max(map(len, lines)) <= width
    lines = [line for line in lines if line.strip(" ─")]
    blank = [all(line[at] == " " for line in lines) for at in range(width)]
    gaps = [at for at in range(width - 1) if blank[at] and blank[at + 1]]
    columns = [slice(start + 1, end) for start, end in zip([-1, *gaps], [*gaps, width], strict=True)]
    columns = [column for column in columns if any(line[column].strip() for line in lines)]
    parts = [[line[column].strip() for column in columns] for line in lines]
    begins = parts[0].index(figure)
    rows: list[list[str]] = []
    for part in parts:
        if part[begins]:
            rows.append(part)
        else:
            rows[-1] = [before + more for before, more in zip(rows[-1], part, strict=True)]
    return rows
