"""What commands on Spark have in common, and `samerack pipeline package`, which writes what spark-submit needs."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from zipfile import ZIP_DEFLATED, ZipFile

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from samerack.common.console import Console
from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_POLL_SECONDS: Final = 0.3
_MIN_SPARK: Final = 4
"""The first with the type variant, by which records are judged."""
_CURE: Final = "pip install 'samerack[pipeline]'"

_ROOMS: Final = ("assignors", "auth", "common", "pipeline", "settings", "traffic")
_ZIP: Final = "samerack-pipeline.zip"
_PROGRAM: Final = "samerack_pipeline.py"
_LINES: Final = '''"""Runs samerack's pipeline under spark-submit; the zip beside it holds the code."""

from samerack.pipeline.cli import main

main()
'''


def need_spark() -> None:
    """Check that PySpark and Delta are installed, and keep PySpark from warning of libraries that are locked here.

    Raises:
        SettingsError: They are not, or PySpark is too old.
    """
    if missing := [name for name in ("pyspark", "delta") if find_spec(name) is None]:
        raise SettingsError(f"{missing[0]} is not installed: {_CURE}")
    import pyspark  # noqa: PLC0415 - PySpark is imported only when a command runs

    if int(pyspark.__version__.partition(".")[0]) < _MIN_SPARK:
        raise SettingsError(
            f"Spark {pyspark.__version__} is too old, {_MIN_SPARK}.0 is the oldest: {_CURE}, or use spark-submit of a "
            "newer one"
        )
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)


@contextmanager
def explained(place: str | Path) -> Iterator[None]:
    """Raise as one line what Spark says of files that it cannot read or write, which it finds out only then.

    Raises:
        AgentError: It cannot use what is at this place.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with PySpark
    from pyspark.errors import PySparkException  # noqa: PLC0415 - see above

    from samerack.pipeline.tables import first_line  # noqa: PLC0415 - see above

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise AgentError(
            f"{place}: cannot be read or written: {first_line(error)}; were files deleted, is the storage unreachable, "
            "or are permissions missing?"
        ) from None


@contextmanager
def progress_shown(spark: SparkSession) -> Iterator[None]:
    """Show the tasks of Spark's active stages while the block runs, where standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    ended = threading.Event()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("working out", total=None)

        def report() -> None:
            tracker = spark.sparkContext.statusTracker()
            while not ended.wait(_POLL_SECONDS):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                running = [stage for stage in stages if stage is not None]
                if running:
                    progress.update(
                        task,
                        completed=sum(stage.numCompletedTasks for stage in running),
                        total=sum(stage.numTasks for stage in running),
                    )

        reporter = threading.Thread(target=report, name="progress", daemon=True)
        reporter.start()
        try:
            yield
        finally:
            ended.set()
            reporter.join()


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
        with ZipFile(folder / _ZIP, "w", ZIP_DEFLATED) as archive:
            archive.write(home / "__init__.py", "samerack/__init__.py")
            for room in _ROOMS:
                for path in sorted((home / room).rglob("*")):
                    if path.is_file() and "__pycache__" not in path.parts:
                        archive.write(path, "samerack" / path.relative_to(home))
        (folder / _PROGRAM).write_text(_LINES, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{folder}: cannot be written ({error.strerror}); name another folder") from None
    return folder / _ZIP, folder / _PROGRAM
