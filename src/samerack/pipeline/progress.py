"""Shows the progress of a Spark job on standard error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from samerack.common.console import Console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS: Final = 0.3


@contextmanager
def shown(spark: SparkSession, what: str) -> Iterator[None]:
    """Show the tasks of Spark's active stages while the block runs, where standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    ended = threading.Event()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)

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
