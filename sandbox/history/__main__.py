"""Checks files of members' JSON lines by hand: `python -m sandbox.history FILE...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sandbox.errors import SandboxError
from sandbox.history.checker import check
from sandbox.history.model import Bounds
from sandbox.history.reading import read_history


def main(
    files: Annotated[list[Path], typer.Argument(help="One file for each member, and the feeder's; all of one group.")],
    *,
    unowned: Annotated[float, typer.Option(help="Seconds that a partition may be owned by nobody.")] = 10.0,
    stop: Annotated[float, typer.Option(help="Seconds that a partition may go unread.")] = 10.0,
) -> None:
    """Say what was wrong with a consumer group, by what its members told: exit code 1 if anything was."""
    try:
        found = check(read_history(files), Bounds(unowned=unowned, stop=stop))
    except SandboxError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    for finding in found:
        typer.echo(str(finding))
    if found:
        raise typer.Exit(1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
