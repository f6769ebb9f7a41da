"""What commands on Spark have in common: the check that it is installed, and the progress of its jobs."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from samerack.common.console import Console
from samerack.common.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS: Final = 0.3


def need_spark() -> None:
    """Check that PySpark and Delta are installed, and keep PySpark from warning of libraries that are locked here.

    Raises:
        SettingsError: They are not.
    """
    if missing := [name for name in ("pyspark", "delta") if find_spec(name) is None]:
        raise SettingsError(f"{missing[0]} is not installed: pip install 'samerack[pipeline]'")
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)


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
