"""A stream submitted as a zip to a real standalone cluster makes the right tables."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from samerack.pipeline.simulate import Faults
from tests.spark import standalone
from tests.spark.stream_process import COMMAND_SECONDS, arguments, command, filled, in_tables, simulated, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = 2_000


def run(words: list[str], **more: object) -> str:
    """The standard output of a command that must succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def test_a_standalone_master_with_two_workers_makes_the_right_tables(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    """spark-submit with the zip on two workers makes the tables that are computed without Spark."""
    made = simulated(SAMPLES, faults=Faults(duplicates=0.05, late=0.01, malformed=0.005))
    files = json.loads(run(command("package", str(tmp_path / "files"), "--json")))
    source = filled(bootstrap, made)
    with standalone.master_and_workers(tmp_path, workers=2) as master:
        submit = [str(standalone.HOME / "bin" / "spark-submit"), "--master", master]
        submit += ["--conf", "spark.executor.memory=512m", "--conf", "spark.sql.shuffle.partitions=2"]
        submit += ["--jars", ",".join(files["jars"]), "--py-files", files["zip"], files["program"]]
        chosen = arguments(source, tmp_path / "submitted", "--once", "--json", master="")
        output = run([*submit, *chosen], env=standalone.environment(), cwd=tmp_path).splitlines()
        executors = [path for number in range(2) for path in (tmp_path / f"worker-{number}").glob("app-*/*/stderr")]
    # spark-submit mixes standard error into standard output
    batches = [json.loads(line) for line in output if line.startswith("{")]
    assert sum(batch["records"] for batch in batches) == len(made)
    assert len({path.parents[2] for path in executors}) == 2, "a worker had nothing to do"
    assert in_tables(spark, tmp_path / "submitted") == truth(made)


def test_a_master_without_workers_is_waited_for_as_long_as_the_settings_say(tmp_path: Path) -> None:
    """A job that no worker takes ends after the configured time, with an error that says so."""
    with standalone.master_and_workers(tmp_path, workers=0) as master:
        chosen = [f"pipeline.master={master}", f"pipeline.tables={tmp_path}", "pipeline.start_seconds=3"]
        done = subprocess.run(
            command("maintain", *(part for text in chosen for part in ("-s", text))),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert f"no worker of {master} has taken the job within 3 s" in done.stderr.splitlines()[-1]
