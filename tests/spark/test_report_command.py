"""`samerack pipeline report` as users run it: the page, files, JSON, and errors."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from samerack.pipeline import tables
from samerack.settings.pipeline import PipelineSettings
from tests.spark.conftest import Typed
from tests.spark.records import state
from tests.spark.stream_process import COMMAND_SECONDS, command
from tests.spark.test_report import LED, minutes
from tests.spark.test_report import tables as made_of


@pytest.fixture(scope="module")
def kept(spark: SparkSession, empty_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tables with four minutes of one group; tests do not change it."""
    folder = shutil.copytree(empty_tables, tmp_path_factory.mktemp("kept") / "tables")
    settings = PipelineSettings(tables=str(folder))
    found = made_of(spark, minutes(4), [state(1, **LED)])
    tables.append(found.traffic, settings, "traffic_by_minute")
    tables.append(found.states, settings, "group_states")
    return folder


def test_a_page_files_and_json(kept: Path, tmp_path: Path) -> None:
    """One run in its own process, with code that Spark generates, writes all three, and they agree."""
    words = ["--json", "--tables", "all", "-s", f"pipeline.tables={kept}", "-s", "pipeline.master=local[2]"]
    line = command("report", *words)
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["headline"]["bytes"] == 4000
    assert "written: report.html" in done.stderr
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "4 kB" in page
    with (tmp_path / "all" / "traffic_by_day.csv").open(newline="") as lines:
        (row,) = csv.DictReader(lines)
    assert (row["group"], row["topic"], row["bytes"], row["crossing_bytes"]) == ("orders", "clicks", "4000", "4000")
    assert {path.name for path in (tmp_path / "all").iterdir()} == {
        "traffic_by_day.csv",
        "groups_by_day.csv",
        "lost_rack_awareness.csv",
        "focus.csv",
    }


def test_a_damaged_table_is_no_traceback(kept: Path, typed: Typed, tmp_path: Path) -> None:
    """Missing data files are noticed only when they are read, and still give one error line."""
    damaged = shutil.copytree(kept, tmp_path / "damaged")
    for file in (damaged / "traffic_by_minute").rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()
    done = typed("pipeline", "report", "-s", f"pipeline.tables={damaged}")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith("samerack: ")
    assert "cannot be read" in done.stderr


def test_what_cannot_be_written_is_no_traceback_and_loses_no_answer(kept: Path, typed: Typed, tmp_path: Path) -> None:
    """What-if has worked for minutes by then."""
    file = tmp_path / "file"
    file.touch()
    done = typed("pipeline", "whatif", "--csv", str(file / "below"), "-s", f"pipeline.tables={kept}")
    assert done.exit_code == 1
    assert done.stdout
    assert done.stderr.splitlines()[-1].startswith(f"samerack: {file / 'below'}: cannot be read or written: ")
