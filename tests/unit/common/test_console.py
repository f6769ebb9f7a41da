"""External names on a terminal are shown, and never interpreted."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.table import Table

from samerack.common.console import Console
from samerack.common.errors import AgentError, report_error

HOSTILE = "app\x1b[2J\x1b]52;c;cm0gLXJm\x07\u202e\rgone"


def test_a_name_steers_no_terminal_from_a_line_or_a_table() -> None:
    """Escape sequences, also the clipboard's, and marks for the writing direction are replaced."""
    shown = StringIO()
    console = Console(file=shown, force_terminal=True, width=80)
    table = Table("member")
    table.add_row(HOSTILE)
    console.print(table)
    console.print(HOSTILE, markup=False, highlight=False)
    text = shown.getvalue()
    assert text.count("app\ufffd[2J\ufffd]52;c;cm0gLXJm\ufffd\ufffd\ufffdgone") == 2
    assert not any(mark in text for mark in ("\x1b[2J", "\x1b]", "\x07", "\u202e", "\r"))


@pytest.mark.parametrize("name", ["[/red]", "[link=file:///etc/passwd]x[/link]", "[bold]b[/bold]", ":smile:", "[/]"])
def test_a_name_is_no_markup(name: str) -> None:
    """This holds in a line, a cell and a title; a closing tag without an opening one is no error."""
    shown = StringIO()
    console = Console(file=shown, force_terminal=True, color_system="truecolor", width=80)
    table = Table("member", title=name)
    table.add_row(name)
    console.print(table)
    console.print(name, highlight=False)
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).count(name) == 3


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An error is one line, whatever name it contains."""
    assert report_error(AgentError(f"group {HOSTILE}\nsamerack: all is well")) == 1
    assert capsys.readouterr().err.count("\n") == 1
