"""The pipeline's commands as a separate program for spark-submit: those of `samerack pipeline`, without the agent."""

from __future__ import annotations

import typer

from samerack.common.command_line import OneLineErrors
from samerack.pipeline.cli import commands

app = typer.Typer(cls=OneLineErrors, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
commands(app)


def main() -> None:
    """Run the command line."""
    app()
