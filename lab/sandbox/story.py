"""What runs on this machine share: progress, how they end, tables, and a folder that is kept after a failure."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lab.sandbox.admin import Admin
from lab.sandbox.cluster import Cluster
from lab.sandbox.errors import SandboxError

AsJson = Annotated[bool, typer.Option("--json", help="End with one JSON line on standard output.")]
Keep = Annotated[bool, typer.Option(help="Keep histories and logs also when nothing is wrong.")]


class Story:
    """Prints the progress of a run, with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._begun = time.monotonic()

    def report(self, text: str) -> None:
        """Print one step."""
        self.console.print(f"[dim]{time.monotonic() - self._begun:6.1f} s[/dim]  {text}", highlight=False)


def run_story(console: Console, story: Callable[[Story], dict[str, Any]]) -> dict[str, Any]:
    """Run a story to its end, and print how it ended if it failed; return its result.

    Raises:
        typer.Exit: It failed (1) or was interrupted (130).
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background job would ignore it
        signal.signal(number, _interrupt)
    try:
        return story(Story(console))
    except SandboxError as error:
        console.print(f"[red]failed:[/red] {error}", highlight=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print("interrupted: every process has ended and every file is gone")
        raise typer.Exit(130) from None


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def command(main: Callable[..., None]) -> None:
    """Run a program with the arguments of the command line."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()


def summary(console: Console, title: str, rows: Mapping[str, str]) -> None:
    """Print a table of what was measured."""
    table = Table(title=title)
    table.add_column("")
    table.add_column("measured", justify="right")
    for row in rows.items():
        table.add_row(*row)
    console.print(table)


def conclude(result: Mapping[str, float], *, as_json: bool, failed: bool) -> None:
    """End a demo: with its measurements as JSON if asked for, and with exit code 1 if it failed.

    Raises:
        typer.Exit: It failed.
    """
    if as_json:
        typer.echo(json.dumps({key: round(value, 4) for key, value in result.items()}))
    if failed:
        raise typer.Exit(1)


def log_console(columns: int) -> Console:
    """Return a console on standard error; without a terminal it has `columns` columns, so that an event is a line."""
    console = Console(stderr=True)
    return console if console.is_terminal else Console(stderr=True, width=columns)


def complain(console: Console, complaints: Iterable[str]) -> None:
    """Print what is wrong, a line each; if anything is, the program ends with exit code 1.

    Raises:
        typer.Exit: Something is wrong.
    """
    wrong = list(complaints)
    for complaint in wrong:
        console.print(f"[red]{complaint}[/red]", highlight=False)
    if wrong:
        raise typer.Exit(1)


@contextmanager
def three_brokers(
    report: Callable[[str], None], *, note: str = "", properties: Mapping[str, str] | None = None
) -> Iterator[tuple[Cluster, Admin]]:
    """Run three brokers, one in each rack, within the context; `note` says what is special about them."""
    report(f"starting three brokers, one in each rack{note}")
    with Cluster(properties=properties, progress=report) as cluster, Admin(cluster.bootstrap) as admin:
        yield cluster, admin


@dataclass(slots=True, kw_only=True)
class Evidence:
    """A folder; `keep` may be set until its context ends."""

    folder: Path
    keep: bool


@contextmanager
def evidence(story: Story, prefix: str, *, keep: bool) -> Iterator[Evidence]:
    """Create a folder, which is kept if asked for or if the run failed; an interrupted run removes it."""
    made = Evidence(folder=Path(tempfile.mkdtemp(prefix=prefix)), keep=keep)
    kept = True
    try:
        yield made
        kept = made.keep
    except KeyboardInterrupt:
        kept = False
        raise
    finally:
        if kept:
            story.report(f"histories and logs are kept in {made.folder}")
        else:
            shutil.rmtree(made.folder, ignore_errors=True)
