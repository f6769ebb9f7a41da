"""Keeping the tables small and quick: days past their time go, small files become large ones, old files are deleted.

Safe while the stream writes: whoever comes second begins that piece anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from common.settings.pipeline import PipelineSettings
from pipeline import tables
from pipeline.schema import TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What was done to one table.

    Attributes:
        table: its name.
        kept_since: first day that it keeps.
        days_deleted: days before that, which are gone.
        files_before: data files of the table before.
        files_after: and now.
        bytes: their size now.
        seconds: how long it took.
    """

    table: str
    kept_since: date
    days_deleted: int
    files_before: int
    files_after: int
    bytes: int
    seconds: float


def maintain(
    spark: SparkSession, settings: PipelineSettings, *, today: date, progress: Callable[[str], None]
) -> list[Kept]:
    """Do it for every table.

    Args:
        spark: The session.
        settings: Where the tables lie, how many days they keep, and how long old files stay.
        today: Today in UTC.
        progress: Is told what begins.

    Raises:
        AgentError: A table is missing or cannot be read, or another writer changes the same files again and again.
    """
    return [_one(spark, settings, name, today, progress) for name in TABLES]


def first_day(settings: PipelineSettings, name: str, today: date) -> date:
    """The first day that a table keeps: as many days as its setting says, today among them."""
    days = {
        "traffic_by_minute": settings.traffic_days,
        "group_states": settings.states_days,
        "quarantine": settings.quarantine_days,
    }
    return today - timedelta(days=days[name] - 1)


def _one(
    spark: SparkSession, settings: PipelineSettings, name: str, today: date, progress: Callable[[str], None]
) -> Kept:
    begun = time.monotonic()
    table = tables.opened(spark, settings, name)
    files_before, _ = _size(spark, settings, name)
    since = first_day(settings, name, today)
    old = F.col("day") < F.lit(since)
    gone = tables.read(spark, settings, name).where(old).select("day").distinct().count()
    if gone:
        progress(f"{name}: deleting {gone} days before {since}")
        tables.patiently(lambda: table.delete(old))
    progress(f"{name}: compacting")
    # today's files are those that the stream changes: meeting it there must not undo the work on all other days
    for days in (f"day < DATE'{today}'", f"day >= DATE'{today}'"):
        tables.patiently(lambda days=days: table.optimize().where(days).executeCompaction())  # type: ignore[misc]
    progress(f"{name}: deleting files that no version of the last {settings.vacuum_hours:g} hours needs")
    table.vacuum(settings.vacuum_hours)
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
    """Files and bytes of a table as it stands."""
    row = tables.opened(spark, settings, name).detail().select("numFiles", "sizeInBytes").head()
    return (0, 0) if row is None else (row["numFiles"], row["sizeInBytes"])
