"""`samerack pipeline whatif` as users run it."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation calls it

from samerack.pipeline import tables
from samerack.pipeline.cli.simulate import folder
from samerack.pipeline.schema import GROUP_STATE
from samerack.pipeline.simulate import FILES, messages
from samerack.pipeline.simulate_cast import Fleet
from samerack.settings.pipeline import PipelineSettings
from tests.docs import blocks
from tests.spark.conftest import Typed
from tests.spark.stream_process import COMMAND_SECONDS, command

DOCUMENTED = [documented for documented in blocks() if documented.page == "whatif.md"]


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A folder with the states of a fleet."""
    with folder(tmp_path / "fleet") as sink:
        for message in messages(Fleet(groups=15, days=0.5, step_seconds=3600)):
            sink(message)
    return tmp_path / "fleet"


def test_a_folder_becomes_a_ranking_and_files(fleet: Path) -> None:
    """A process of its own prints JSON, and writes every scenario of every group as CSV."""
    words = ["fleet", "--json", "--top", "3", "--csv", "all", "--members", "rack-a=1,rack-b=1"]
    line = command("whatif", *words, "-s", "pipeline.master=local[2]")
    result = subprocess.run(
        line, cwd=fleet.parent, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["totals"]["groups"] == 15
    assert len(found["ranking"]) == 3
    (file,) = (fleet.parent / "all").glob("*.csv")
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len({row["group"] for row in rows}) == 15
    assert {"present", "optimal", "lead"} <= {row["scenario"] for row in rows}


def test_without_a_folder_the_table_is_read(
    fleet: Path, spark: SparkSession, typed: Typed, made: PipelineSettings
) -> None:
    """Without a folder the command reads `group_states` in pipeline.tables, as the stream writes it."""
    lines = spark.read.text(str(fleet / FILES["state"]))
    states = lines.select(F.from_json("value", GROUP_STATE).alias("s")).select("s.*")
    dated = states.withColumn("at", F.timestamp_millis("at")).withColumn("day", F.to_date("at"))
    tables.append(dated, made, "group_states")
    result = typed("pipeline", "whatif", "-s", f"pipeline.tables={made.tables}")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("15 groups read ")


def test_the_documentation_can_be_followed(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the page succeeds, in order, in one folder."""
    monkeypatch.chdir(tmp_path)
    assert len(DOCUMENTED) == 5
    for documented in DOCUMENTED:
        program, *words = documented.words
        assert program == "samerack"
        done = typed(*words)
        assert done.exit_code == 0, f"{documented}: {done.stderr}"
    assert list((tmp_path / "scenarios").glob("*.csv"))
