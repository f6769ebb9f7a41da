"""`samerack streams`: where the tasks of a Kafka Streams application go, for programs that ask line by line.

What must not enter: the format of questions and answers (`streams_json`, `streams_answers`), talk with brokers.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from agent.cli.streams_answers import ASSIGN, DEFAULT_STANDBY, OPTIMIZE, answer_line

if TYPE_CHECKING:
    from collections.abc import Collection

streams: Final = typer.Typer(
    name="streams",
    no_args_is_help=True,
    help="Place the tasks of Kafka Streams applications (KIP-441, KIP-708, KIP-924, KIP-925).",
)

LinesOption = Annotated[
    bool, typer.Option("--lines", help="Answer each line of standard input with one line of JSON, at once.")
]


def register(app: typer.Typer) -> None:
    """Add the command `streams` with its own commands."""
    app.add_typer(streams)


@streams.command("optimize", no_args_is_help=True)
def optimize(*, lines: LinesOption = False) -> None:
    """Move tasks of a plan to where they read least across racks (KIP-925), one JSON question per line."""
    _answer(lines=lines, commands=(OPTIMIZE,))


@streams.command("assign", no_args_is_help=True)
def assign(*, lines: LinesOption = False) -> None:
    """Assign all tasks, or add standbys to actives ("cmd": "streams-default-standby"), one JSON question per line."""
    _answer(lines=lines, commands=(DEFAULT_STANDBY, ASSIGN))


def _answer(*, lines: bool, commands: Collection[str]) -> None:
    if not lines:
        typer.echo("samerack streams: give --lines, and questions on standard input", err=True)
        raise typer.Exit(2)
    for line in sys.stdin.buffer:
        if line.strip():
            sys.stdout.write(json.dumps(answer_line(line, commands)) + "\n")
            sys.stdout.flush()
