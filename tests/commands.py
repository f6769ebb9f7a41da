"""Commands in messages, as a user copies them into a shell."""

from __future__ import annotations

import re
import shlex
from typing import Any

import typer

from samerack.cli.main import app
from samerack.settings.flags import settings_from

_COMMAND = re.compile(r"`(samerack [^`]*)`")
_ASKS_BROKERS = ("plan", "run", "streams plan")
"""Commands that end with an error where no brokers are named; others ask an agent."""


def commands_in(text: str) -> list[str]:
    """The commands in a message: between backticks."""
    return _COMMAND.findall(text)


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    """The command's name and its arguments, by the real command line, which does not run.

    Raises:
        Exception: There is no such command or option, or an argument or brokers are missing.
    """
    program, *words = shlex.split(line)
    assert program == "samerack"
    found: Any = typer.main.get_command(app)
    context, path = found.make_context("samerack", list(words)), []
    while hasattr(found, "get_command"):
        name, *words = words
        found = found.get_command(context, name)
        assert found is not None, f"no such command: {line}"
        context = found.make_context(name, list(words), parent=context)
        path.append(name)
    if " ".join(path) in _ASKS_BROKERS:
        brokers = context.params["bootstrap"] or ()
        settings_from(None, [one.replace("HOST:PORT", "host:9092") for one in brokers], context.params["assignments"])
    return " ".join(path), context.params
