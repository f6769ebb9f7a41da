"""`samerack pipeline package`: what spark-submit needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from samerack.pipeline import jars
from samerack.pipeline import package as files


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("package", no_args_is_help=True)(package)


def package(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The files and the jars as JSON.")] = False,
) -> None:
    """Write the pipeline as a zip and a program for spark-submit, and say how it is called.

    The driver needs the Python packages of samerack[pipeline]; workers need numpy, ortools, pandas, pyarrow
    and pydantic for what-if and reports, and none for the stream and maintenance.
    """
    archive, program = files.write(folder)
    needed = [str(jars.cache() / name) for name in jars.names()]
    if as_json:
        typer.echo(json.dumps({"zip": str(archive), "program": str(program), "jars": needed}))
        return
    typer.echo(
        f"spark-submit --master spark://HOST:7077 --py-files {archive} \\\n"
        f"  --jars $(ls {jars.cache()}/*.jar | paste -sd,) \\\n"
        f"  {program} stream -b HOST:PORT -s pipeline.tables=PLACE-THAT-ALL-WORKERS-SEE"
    )
