"""Maintains the tables: deletes days past their retention, merges small files, adds days up, and deletes old files.

The stream does it between batches; another process may do it, where the storage allows a second writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.pipeline import days, tables
from samerack.pipeline.schema import TABLES
from samerack.settings.pipeline import PipelineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The result of maintaining one table.

    Attributes:
        kept_since: first day that it keeps.
        files_before: data files of the table before.
        files_after: data files now.
        bytes: their size now.
    """

    table: str
    kept_since: date
    days_deleted: int
    files_before: int
    files_after: int
    bytes: int
    seconds: float


_QUARANTINE_DAYS: Final = 30
"""Enough to look at bad records and publish them again."""
_VACUUM_HOURS: Final = 168.0
"""Age after which unreferenced files are deleted: Delta's own, longer than any query and any pause of the stream."""


def maintain(
    spark: SparkSession,
    settings: PipelineSettings,
    *,
    today: date,
    progress: Callable[[str], None],
    vacuum_hours: float = _VACUUM_HOURS,
) -> list[Kept]:
    """Maintain every table.

    `today` is in UTC, `progress` is called with each step that starts, and files that no table needs are deleted after
    `vacuum_hours`.

    Raises:
        AgentError: A table is missing or cannot be read, or another writer changes the same files repeatedly.
    """
    done = []
    for name in TABLES:
        if name == "traffic_by_day":  # of the files that the minutes have now
            tables.create(spark, settings)
            days.add_up(spark, settings, until=today, progress=progress)
        done.append(_maintained(spark, settings, name, today=today, progress=progress, vacuum_hours=vacuum_hours))
    return done


def _first_day(settings: PipelineSettings, name: str, today: date) -> date:
    """Return the first day that a table keeps; the number of days in its setting includes today."""
    kept = {
        "traffic_by_minute": settings.traffic_days,
        "traffic_by_day": settings.traffic_days,
        "group_states": settings.states_days,
        "quarantine": _QUARANTINE_DAYS,
    }
    return today - timedelta(days=kept[name] - 1)


def _maintained(  # noqa: PLR0913 - those of `maintain`
    spark: SparkSession,
    settings: PipelineSettings,
    name: str,
    *,
    today: date,
    progress: Callable[[str], None],
    vacuum_hours: float,
) -> Kept:
    begun = time.monotonic()
    table = tables.opened(spark, settings, name)
    files_before, _ = _size(spark, settings, name)
    since = _first_day(settings, name, today)
    old = F.col("day") < F.lit(since)
    gone = tables.read(spark, settings, name).where(old).select("day").distinct().count()
    if gone:
        progress(f"{name}: deleting {gone} days before {since}")
        tables.patiently(lambda: table.delete(old))
    progress(f"{name}: compacting")
    # the stream changes today's files: a conflict there must not undo the compaction of all other days
    for part in (f"day < DATE'{today}'", f"day >= DATE'{today}'"):
        tables.patiently(lambda part=part: table.optimize().where(part).executeCompaction())  # type: ignore[misc]
    progress(f"{name}: deleting files that no version of the last {vacuum_hours:g} hours needs")
    table.vacuum(vacuum_hours)
    files_after, size = _size(spark, settings, name)
    return Kept(
        table=name,
        kept_since=since,
        days_deleted=gone,
        files_before=files_before,
        files_after=files_after,
        bytes=size,
        seconds=time.monotonic() - begun,
    )


def _size(spark: SparkSession, settings: PipelineSettings, name: str) -> tuple[int, int]:
    """Return the current number of files and bytes of a table."""
    row = tables.opened(spark, settings, name).detail().select("numFiles", "sizeInBytes").head()
    return (0, 0) if row is None else (row["numFiles"], row["sizeInBytes"])
