"""Maintenance deletes old days and merges files: in the stream, and beside it."""

from __future__ import annotations

import json
import subprocess
import threading
from datetime import date, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame

from samerack.common.errors import AgentError
from samerack.pipeline import maintenance, schema, stream, tables
from samerack.pipeline.maintenance import maintain
from samerack.pipeline.parsing import parsed
from samerack.settings.pipeline import PipelineSettings
from tests.spark.records import EVER, SETTINGS, raw, state
from tests.spark.stream_process import COMMAND_SECONDS, command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TODAY = date(2025, 11, 10)


def rows(spark: SparkSession, day: date, size: int) -> DataFrame:
    """One row of traffic on a day."""
    minute = datetime(day.year, day.month, day.day, 12)  # noqa: DTZ001 - the session's zone is UTC
    row = ("east", "orders", "clicks", "rack-a", "rack-b", "exact", "samerack", minute, size, 1, 1, day)
    return spark.createDataFrame([row], schema.TRAFFIC_BY_MINUTE)


def sizes(spark: SparkSession, settings: PipelineSettings) -> dict[date, int]:
    """The bytes of each day."""
    kept = tables.read(spark, settings, "traffic_by_minute").groupBy("day").sum("bytes").collect()
    return {row["day"]: row["sum(bytes)"] for row in kept}


def test_old_days_go_and_small_files_become_one(spark: SparkSession, made: PipelineSettings) -> None:
    """Days before the retention are deleted, each other day is one file, and no other file remains on disk."""
    settings = made.model_copy(update={"traffic_days": 2})
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")  # refuses less than a week
    days = [TODAY - timedelta(days=back) for back in (3, 2, 1, 0)]
    for size in (1, 2):
        each = [rows(spark, day, size) for day in days]
        tables.append(reduce(DataFrame.union, each), settings, "traffic_by_minute")
    lines: list[str] = []
    traffic, by_day, *others = maintain(spark, settings, today=TODAY, progress=lines.append, vacuum_hours=0)
    assert sizes(spark, settings) == {days[2]: 3, days[3]: 3}
    assert (traffic.days_deleted, traffic.files_before, traffic.files_after) == (2, 8, 2)
    assert traffic.kept_since == days[2]
    assert len(list((Path(settings.tables) / "traffic_by_minute").glob("day=*/*.parquet"))) == 2
    assert [(other.days_deleted, other.files_after) for other in others] == [(0, 0), (0, 0)]
    assert (by_day.days_deleted, by_day.files_after) == (0, 1)  # the day that is complete
    assert lines[0] == f"traffic_by_minute: deleting 2 days before {days[2]}"


def test_the_commands_json_is_alone_on_standard_output(made: PipelineSettings) -> None:
    """Delta prints to Java's standard output; that is this process's standard error."""
    line = command("maintain", "--json", "-s", f"pipeline.tables={made.tables}", "-s", "pipeline.master=local[2]")
    done = subprocess.run(line, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)
    assert [kept["table"] for kept in json.loads(done.stdout)] == list(schema.TABLES)
    assert "Deleted 0 files" in done.stderr


def test_the_stream_writes_on_while_tables_are_maintained(spark: SparkSession, made: PipelineSettings) -> None:
    """Batches that are added during maintenance are complete afterwards, each once."""
    settings = made
    begun, over = threading.Event(), threading.Event()
    written: list[int] = []
    failed: list[Exception] = []
    own = spark.newSession()  # as a stream has, so that its writer's number does not count for maintenance

    def write() -> None:
        try:
            while not over.is_set() or len(written) < 3:
                with tables.transaction(own, writer="stream", number=len(written), late_days=90):
                    tables.append(rows(own, TODAY, 1), settings, "traffic_by_minute")
                written.append(1)
                if len(written) == 2:
                    begun.set()  # there is something to maintain
        except Exception as error:  # noqa: BLE001 - the assertion below reports it
            failed.append(error)
        finally:
            begun.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        begun.wait()
        maintain(spark, settings, today=TODAY, progress=lambda _: None)
    finally:
        over.set()
        thread.join()
    assert failed == []
    assert sizes(spark, settings) == {TODAY: len(written)}


def test_a_stream_maintains_its_tables_between_batches(
    spark: SparkSession, made: PipelineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour after its start, and then daily; what fails is said, tried again in an hour, and ends nothing."""
    now, lines, runs = [0.0], list[str](), list[float]()
    settings = SETTINGS.model_copy(update={"tables": made.tables, "states_days": EVER})
    writer = stream.Writer(settings, report=lines.append, clock=lambda: now[0])
    whole = maintenance.maintain

    def maintained(*of: Any, **named: Any) -> list[maintenance.Kept]:
        runs.append(now[0] / 3600)
        if len(runs) == 1:
            raise AgentError("no right to delete")
        return whole(*of, **named)

    monkeypatch.setattr(maintenance, "maintain", maintained)
    for number, hour in enumerate((0.5, 1, 1.5, 2, 25.5, 26)):
        now[0] = hour * 3600
        writer(parsed(raw(spark, states=[state(number)]), settings), number)
        if hour == 2:
            assert len(tables.read(spark, settings, "group_states").inputFiles()) == 1
    assert runs == [1, 2, 26]
    assert lines[0] == "maintenance has failed, and is tried again in an hour: no right to delete"
    assert "group_states: compacting" in lines
    assert tables.read(spark, settings, "group_states").count() == 6
