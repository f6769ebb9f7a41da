"""`samerack pipeline`: the commands of the fleet pipeline.

PySpark is imported only when a command runs. For spark-submit they are a program of their own, without the agent.
"""

from __future__ import annotations

from typing import Final

import typer

from samerack.common.command_line import OneLineErrors
from samerack.pipeline.cli import report, simulate, spark, tables, whatif

app: Final = typer.Typer(
    name="pipeline",
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The whole fleet on Spark: what crosses racks, what it costs, and where to save next.",
)
app.command("stream")(tables.stream)
app.command("report")(report.report)
app.command("whatif")(whatif.whatif)
app.command("simulate", no_args_is_help=True)(simulate.simulate)
app.command("maintain")(tables.maintain)
app.command("package", no_args_is_help=True)(spark.package)


def register(program: typer.Typer) -> None:
    """Add `pipeline` with its commands."""
    program.add_typer(app)


def main() -> None:
    """Run the commands as the program that spark-submit starts."""
    app()
