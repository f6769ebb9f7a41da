"""`samerack pipeline package`: what spark-submit needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final
from zipfile import ZIP_DEFLATED, ZipFile

import typer

from samerack.common.errors import SettingsError
from samerack.pipeline import jars

ROOMS: Final = ("assignors", "auth", "common", "pipeline", "settings")
ZIP: Final = "samerack-pipeline.zip"
PROGRAM: Final = "samerack_pipeline.py"
_LINES: Final = '''"""Runs samerack's pipeline under spark-submit; the zip beside it holds the code."""

from samerack.pipeline.job import main

main()
'''


def package(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The files and the jars as JSON.")] = False,
) -> None:
    """Write the pipeline as a zip and a program for spark-submit, and say how it is called.

    The driver needs the Python packages of samerack[pipeline]; workers need numpy, ortools, pandas, pyarrow
    and pydantic for what-if and reports, and none for the stream and maintenance.
    """
    archive, program = _write(folder)
    needed = [str(jars.cache() / name) for name in jars.names()]
    if as_json:
        typer.echo(json.dumps({"zip": str(archive), "program": str(program), "jars": needed}))
        return
    typer.echo(
        f"spark-submit --master spark://HOST:7077 --py-files {archive} \\\n"
        f"  --jars $(ls {jars.cache()}/*.jar | paste -sd,) \\\n"
        f"  {program} stream -b HOST:PORT -s pipeline.tables=PLACE-THAT-ALL-WORKERS-SEE"
    )


def _write(folder: Path) -> tuple[Path, Path]:
    """Write a zip of the packages that the workers need too, and the program to submit; return both."""
    home = Path(__file__).parents[2]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ZipFile(folder / ZIP, "w", ZIP_DEFLATED) as archive:
            archive.write(home / "__init__.py", "samerack/__init__.py")
            for room in ROOMS:
                for path in sorted((home / room).rglob("*")):
                    if path.is_file() and "__pycache__" not in path.parts:
                        archive.write(path, "samerack" / path.relative_to(home))
        (folder / PROGRAM).write_text(_LINES, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{folder}: cannot be written ({error.strerror}); name another folder") from None
    return folder / ZIP, folder / PROGRAM
