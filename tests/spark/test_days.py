"""Traffic by day: reports with it and without it are equal, whatever is late, killed, or written at the same time."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.money import shipped
from samerack.pipeline import days, maintenance, tables
from samerack.pipeline.report.fleet_report import FleetReport
from samerack.pipeline.report.gather import Asked, gathered, opened
from samerack.pipeline.schema import TRAFFIC_BY_MINUTE
from samerack.settings.pipeline import PipelineSettings

FIRST: Final = date(2025, 11, 1)
DAYS: Final = 6
TODAY: Final = FIRST + timedelta(days=DAYS - 1)
EXACT: Final = replace(shipped("aws"), dollars_per_gb_sent=2.0**-20, dollars_per_gb_received=0.0, bytes_per_gb=2**10)
"""Prices of which sums of dollars are exact, in whatever order rows are added."""


def silent(_: str) -> None:
    """Shows no progress."""


def random_rows(spark: SparkSession, seed: int, among: int, count: int = 400) -> DataFrame:
    """Rows of traffic on the first days, each key once: some groups have several counts, some rows belong to none."""
    draw = Random(seed)  # noqa: S311 - rows of a test
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for _ in range(count):
        day = FIRST + timedelta(days=draw.randrange(among))
        minute = datetime(day.year, day.month, day.day, draw.choice((0, 12, 23)), draw.randrange(4))  # noqa: DTZ001
        group = draw.choice(("alone", "several", "older"))
        counted_by = {"alone": "a", "several": draw.choice(("a", "b", "c", None)), "older": None}[group]
        key = (
            draw.choice(("east", "west")),
            group,
            draw.choice(("clicks", "orders")),
            draw.choice(("rack-a", "rack-b", "")),
            draw.choice(("rack-a", "rack-b", "")),
            draw.choice(("exact", "estimated")),
            counted_by,
            minute,
        )
        found[key] = (*key, draw.randrange(1000), draw.randrange(10), 1, day)
    return spark.createDataFrame(list(found.values()), TRAFFIC_BY_MINUTE)


def reported(spark: SparkSession, settings: PipelineSettings, asked: Asked, *, of_days: bool) -> FleetReport:
    """The report of the tables, with traffic by day or without it."""
    found = opened(spark, settings)
    found = found if of_days else replace(found, added_up=None)
    with gathered(found, EXACT, asked) as made:
        return replace(made.report, made=datetime(2025, 12, 1, tzinfo=UTC))


def held(spark: SparkSession, settings: PipelineSettings) -> set[date]:
    """The days that are not added up again."""
    _, added_up = days.opened(spark, settings)
    return set() if added_up is None else set(added_up(FIRST, TODAY).days)


def add_up(spark: SparkSession, settings: PipelineSettings) -> int:
    """Add up what is missing before the last day."""
    return days.add_up(spark, settings, until=TODAY, progress=silent)


@pytest.fixture
def settings(spark: SparkSession, made: PipelineSettings) -> PipelineSettings:
    """Tables with random traffic on every day but the last two."""
    tables.append(random_rows(spark, 1, DAYS - 2), made, "traffic_by_minute")
    return made


def rows(spark: SparkSession, settings: PipelineSettings, *, of_days: bool = True) -> set[tuple[Any, ...]]:
    """Traffic by day, with the days that are added up or from minutes alone."""
    minutes, added_up = days.opened(spark, settings)
    stored = added_up(FIRST, TODAY) if added_up is not None and of_days else None
    found = days.by_day(minutes, stored).collect()
    assert len(found) == len(set(found))
    return set(found)


def equal(spark: SparkSession, settings: PipelineSettings) -> None:
    """Assert that traffic by day is the sum of the minutes."""
    assert rows(spark, settings) == rows(spark, settings, of_days=False)


@pytest.mark.promise("A report of days that are added up has what their minutes have, with late rows and after a kill.")
def test_days_are_the_sums_of_their_minutes(
    spark: SparkSession, settings: PipelineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first one is added up, after a kill between two commits, with late rows, and when all is done."""
    whole = {FIRST + timedelta(days=n) for n in range(DAYS - 2)}
    assert held(spark, settings) == set()
    written = tables.replace

    def dying(found: DataFrame, where: PipelineSettings, name: str, **of: Any) -> None:
        if held(spark, settings):
            raise KeyboardInterrupt
        written(found, where, name, **of)

    with monkeypatch.context() as patch:
        patch.setattr(days, "_AT_ONCE", 1)
        patch.setattr(tables, "replace", dying)
        with pytest.raises(KeyboardInterrupt):
            add_up(spark, settings)
    assert held(spark, settings) == {max(whole)}
    equal(spark, settings)
    assert add_up(spark, settings) == DAYS - 3
    assert held(spark, settings) == whole
    equal(spark, settings)
    late = random_rows(spark, 2, 1, count=20)
    tables.append(late.unionByName(of_today(late)), settings, "traffic_by_minute")
    assert held(spark, settings) == whole - {FIRST}
    equal(spark, settings)
    for asked in (Asked(), Asked(last=FIRST + timedelta(days=1))):
        assert reported(spark, settings, asked, of_days=True) == reported(spark, settings, asked, of_days=False)
    assert add_up(spark, settings) == 1
    assert held(spark, settings) == whole
    equal(spark, settings)
    assert add_up(spark, settings) == 0


def of_today(late: DataFrame) -> DataFrame:
    """The same rows on the last day, which is not complete yet."""
    return late.withColumns({"day": F.lit(TODAY), "minute": F.col("minute") + (F.lit(TODAY) - F.lit(FIRST))})


def test_minutes_of_days_that_are_added_up_are_not_read(spark: SparkSession, settings: PipelineSettings) -> None:
    """Their files may even be gone; those of the other days are read."""
    expected = rows(spark, settings)
    add_up(spark, settings)
    for file in (Path(settings.tables) / "traffic_by_minute").glob("day=*/*.parquet"):
        file.unlink()
    assert rows(spark, settings) == expected


def test_tables_of_an_older_version_are_added_up_by_maintenance(
    spark: SparkSession, settings: PipelineSettings
) -> None:
    """Reports go without the table; maintenance makes it after it has merged files, and deletes days with theirs."""
    shutil.rmtree(Path(settings.tables) / "traffic_by_day")
    assert days.opened(spark, settings)[1] is None
    tables.append(random_rows(spark, 3, DAYS - 2), settings, "traffic_by_minute")
    settings = settings.model_copy(update={"traffic_days": 3})
    lines: list[str] = []
    maintenance.maintain(spark, settings, today=TODAY, progress=lines.append)
    kept = {FIRST + timedelta(days=n) for n in range(DAYS - 3, DAYS - 2)}
    assert held(spark, settings) == kept
    assert {row["day"] for row in tables.read(spark, settings, "traffic_by_day").collect()} == kept
    equal(spark, settings)
    assert f"traffic_by_day: adding up 1 days from {min(kept)}" in lines
    maintenance.maintain(spark, settings, today=TODAY, progress=lines.append)
    assert held(spark, settings) == kept


def test_two_may_add_up_at_the_same_time(
    spark: SparkSession, settings: PipelineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream and `maintain` write the same days: the second one's rows take the place of the first one's."""
    both, written = Barrier(2), tables.replace

    def together(found: DataFrame, where: PipelineSettings, name: str, **of: Any) -> None:
        both.wait(60)
        written(found, where, name, **of)

    monkeypatch.setattr(tables, "replace", together)
    with ThreadPoolExecutor(2) as pool:
        assert [one.result() for one in [pool.submit(add_up, spark, settings) for _ in range(2)]] == [DAYS - 2] * 2
    assert len(held(spark, settings)) == DAYS - 2
    equal(spark, settings)


def test_a_row_that_comes_while_its_day_is_added_up_is_not_lost(
    spark: SparkSession, settings: PipelineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The day that was written lacks the row, and is therefore not taken."""
    written = tables.replace

    def beside(found: DataFrame, where: PipelineSettings, name: str, **of: Any) -> None:
        tables.append(random_rows(spark, 4, 1, count=5), settings, "traffic_by_minute")
        written(found, where, name, **of)

    with monkeypatch.context() as patch:
        patch.setattr(tables, "replace", beside)
        add_up(spark, settings)
    assert FIRST not in held(spark, settings)
    equal(spark, settings)


def test_where_files_do_not_say_everything_minutes_are_read(spark: SparkSession, settings: PipelineSettings) -> None:
    """With deletion vectors rows go from files that stay."""
    add_up(spark, settings)
    tables.set_property(spark, settings, "traffic_by_minute", "delta.enableDeletionVectors", "true")
    tables.opened(spark, settings, "traffic_by_minute").delete("topic = 'clicks'")
    assert held(spark, settings) == set()
    assert {row[2] for row in rows(spark, settings)} == {"orders"}
