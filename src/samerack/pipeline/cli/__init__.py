"""`samerack pipeline`: the commands of the fleet pipeline, each in a module of its own.

PySpark is imported only when a command runs.
"""

from __future__ import annotations

import typer

from samerack.common.command_line import OneLineErrors
from samerack.pipeline.cli import maintain, package, report, simulate, stream, whatif


def register(app: typer.Typer) -> None:
    """Add `pipeline` with its commands."""
    group = typer.Typer(
        name="pipeline",
        cls=OneLineErrors,
        no_args_is_help=True,
        help="The whole fleet on Spark: what crosses racks, what it costs, and where to save next.",
    )
    commands(group)
    app.add_typer(group)


def commands(group: typer.Typer) -> None:
    """Add the commands themselves."""
    group.command("stream")(stream.stream)
    group.command("report")(report.report)
    group.command("whatif")(whatif.whatif)
    group.command("simulate", no_args_is_help=True)(simulate.simulate)
    group.command("maintain")(maintain.maintain)
    group.command("package", no_args_is_help=True)(package.package)
