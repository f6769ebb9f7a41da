"""`samerack streams`: where the tasks of a Kafka Streams application go, for people and for programs.

People give one application and get tables. Programs write one JSON question per line and read one JSON answer per line
(`--lines`).
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from samerack.assignors.model import AssignmentError
from samerack.common.console import Console
from samerack.common.words import plain
from samerack.offline import streams_plan
from samerack.offline.assign_json import QuestionError
from samerack.offline.streams_answers import ASSIGN, DEFAULT_STANDBY, OPTIMIZE, answer_line
from samerack.offline.streams_compare import (
    ACTIVE_HEADINGS,
    STANDBY_HEADINGS,
    as_markdown,
    compare_actives,
    compare_standbys,
)
from samerack.offline.streams_instances import Instance, instances
from samerack.offline.streams_json import Application, parse
from samerack.offline.streams_page import page

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

streams: Final = typer.Typer(
    name="streams",
    no_args_is_help=True,
    help="Place the tasks of Kafka Streams applications (KIP-441, KIP-708, KIP-924, KIP-925).",
)

LinesOption = Annotated[
    bool, typer.Option("--lines", help="Answer each line of standard input with one line of JSON, at once.")
]


@streams.command("optimize", no_args_is_help=True)
def optimize(*, lines: LinesOption = False) -> None:
    """Move tasks of a plan to where they read least across racks (KIP-925), one JSON question per line."""
    _answer(lines=lines, commands=(OPTIMIZE,))


@streams.command("assign", no_args_is_help=True)
def assign(*, lines: LinesOption = False) -> None:
    """Assign all tasks, or add standbys to actives ("cmd": "streams-default-standby"), one JSON question per line."""
    _answer(lines=lines, commands=(DEFAULT_STANDBY, ASSIGN))


PLAN_HELP: Final = """Show where the tasks of an application are, and where they would cost least.

FILE (- for standard input) is one JSON object with clients, tasks and where they are:

{"strategy": "min_traffic", "traffic_cost": 10, "non_overlap_cost": 1, "clients": [{"id": "A", "rack": "a"}, {"id": "B",
"rack": "b"}], "tasks": [{"subtopology": 0, "partition": 0, "partitions": [{"topic": "t", "partition": 0, "racks":
["b"]}]}, {"subtopology": 0, "partition": 1, "partitions": [{"topic": "t", "partition": 1, "racks": ["a"]}]}],
"assignment": {"A": ["0_0"], "B": ["0_1"]}}

It may add "standby" ({client: [tasks]}), "stateful" to a task, "changelog" and "source" (true or false) to a partition,
"threads" and "tags" to a client, "rack_aware_assignment_tags", or an "assignor" with "previous_active",
"previous_standby" and "lags".
"""


def plan_of_file(source: Path, *, as_json: bool) -> None:
    """Show the tasks of an application in a file before and after; the command is in `cli.streams`."""
    with _one_line_errors("plan"):
        planned = streams_plan.plan(parse(_read(source), known_keys_only=True))
        if as_json:
            typer.echo(json.dumps(streams_plan.as_json(planned)))
        else:
            streams_plan.show(planned, Console())


@streams.command("compare")
def compare(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="An application as JSON, as `samerack streams plan` takes it."),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    as_page: Annotated[bool, typer.Option("--page", help="The page of the documentation.")] = False,
) -> None:
    """Compare all strategies of KIP-925: what is read across racks, what moves, how standbys spread."""
    with _one_line_errors("compare"):
        chosen = instances() if source is None else [_instance(source)]
        if as_page:
            typer.echo(page(chosen), nl=False)
            return
        actives, standbys = compare_actives(chosen), compare_standbys(chosen)
        if as_json:
            typer.echo(json.dumps({"active": [*map(asdict, actives)], "standby": [*map(asdict, standbys)]}))
        else:
            typer.echo(as_markdown(ACTIVE_HEADINGS, actives) + "\n\n" + as_markdown(STANDBY_HEADINGS, standbys))


def _instance(source: Path) -> Instance:
    application = Application(parse(_read(source), known_keys_only=True))
    return Instance(name=source.stem, state=application.state, plan=application.assignments())


def _read(source: Path) -> bytes:
    return sys.stdin.buffer.read() if str(source) == "-" else source.read_bytes()


@contextmanager
def _one_line_errors(command: str) -> Iterator[None]:
    try:
        yield
    except (QuestionError, AssignmentError, OSError) as error:
        typer.echo(f"samerack streams {command}: {plain(str(error))}", err=True)
        raise typer.Exit(2) from None


def _answer(*, lines: bool, commands: Collection[str]) -> None:
    if not lines:
        typer.echo("samerack streams: give --lines, and questions on standard input", err=True)
        raise typer.Exit(2)
    for line in sys.stdin.buffer:
        if line.strip():
            sys.stdout.write(json.dumps(answer_line(line, commands)) + "\n")
            sys.stdout.flush()
