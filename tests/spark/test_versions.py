"""Older versions of Spark, each with its Delta, make the same tables, reports and what-ifs as the newest."""

from __future__ import annotations

import json
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from samerack.pipeline import jars
from samerack.pipeline.simulate import Faults, messages, with_faults
from samerack.pipeline.simulate_cast import Fleet
from tests.docs import ROOT
from tests.spark.conftest import Typed
from tests.spark.stream_process import COMMAND_SECONDS, arguments, command, filled, in_tables, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HERE: Final = Path(__file__).with_name("versions")
VERSIONS: Final = sorted(path.name for path in _HERE.iterdir())
"""Folders with the jars and the Python packages of a version, which `scripts/room --all spark` fetches."""


def _packages(version: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z-]+)==(\S+)", (_HERE / version / "python.lock").read_text(), re.MULTILINE))


def _run(version: str, *words: str) -> str:
    """The standard output of a command on that version; the other packages are those of these tests."""
    home = jars.cache().parent
    path = os.pathsep.join(map(str, (home / f"spark-python-{version}", ROOT / "src")))
    files = sorted(map(str, (home / f"spark-{version}").glob("*.jar")))
    line = command(*words, "-s", f"pipeline.jars={json.dumps(files)}", "-s", "pipeline.master=local[2]")
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(line, capture_output=True, text=True, timeout=COMMAND_SECONDS, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _timeless(text: str) -> Any:
    """A command's JSON without when it was made, and in how many seconds."""
    return {key: value for key, value in json.loads(text).items() if key not in {"made", "seconds"}}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_older_spark_does_the_same(
    spark: SparkSession, typed: Typed, bootstrap: str, tmp_path: Path, version: str
) -> None:
    """Stream, maintenance, report and what-if: the newest Spark reads the same tables, and answers the same."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    fleet = Fleet(groups=6, days=1.0, step_seconds=1800, start=int((today - timedelta(days=2)).timestamp()) * 1000)
    made = list(with_faults(messages(fleet), Faults(duplicates=0.05, malformed=0.01)))
    source, folder = filled(bootstrap, made), tmp_path / "tables"
    _run(version, *arguments(source, folder, "--once"))
    assert in_tables(spark, folder) == truth(made)
    where = ("-s", f"pipeline.tables={folder}")
    _run(version, "maintain", *where)
    assert in_tables(spark, folder) == truth(made)
    for words in (("report", "--output", str(tmp_path / "report.html")), ("whatif",)):
        line = (*words, "--json", *where)
        newest = typed("pipeline", *line)
        assert newest.exit_code == 0, newest.stderr
        assert _timeless(_run(version, *line)) == _timeless(newest.stdout)


def test_the_page_names_these_versions() -> None:
    """The table of docs/pipeline.md has Spark and Delta of each, and the jars that differ."""
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    rows = {cells[0]: row for row in page.splitlines() if (cells := row.strip("| ").split(" | "))}
    for version in VERSIONS:
        packages = _packages(version)
        row = rows[packages["pyspark"]]
        assert f"| {packages['delta-spark']} |" in row
        for line in (_HERE / version / "jars.lock").read_text().splitlines():
            name, _, number = line.split()[1].removesuffix(".jar").rpartition("-")
            if f"{name}-{number}.jar" not in jars.names():
                assert f"`{name}`" in row, row
                assert number in row
