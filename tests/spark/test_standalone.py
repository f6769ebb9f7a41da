"""A stream submitted as a zip to a real standalone cluster makes the right tables."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from lab.sandbox.processes import end, spawn, wait_for_line
from lab.sandbox.settings import HOST, free_ports
from samerack.pipeline.simulate import Faults
from tests.spark.stream_process import COMMAND_SECONDS, arguments, command, filled, in_tables, simulated, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = 2_000
HOME: Final = Path(pyspark.__file__).parent
_CLASSES: Final = "org.apache.spark.deploy"
_START_SECONDS: Final = 60.0


def environment() -> dict[str, str]:
    """The environment variables for Spark's own scripts and classes."""
    return {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": HOST, "SPARK_NO_DAEMONIZE": "1"}


@contextmanager
def master_and_workers(folder: Path, *, workers: int) -> Iterator[str]:
    """Start a master and workers with one core each, and yield the master's address."""
    port, *ports = free_ports(1 + workers)
    address = f"spark://{HOST}:{port}"
    with ExitStack() as running:
        master = ["--host", HOST, "--port", str(port), "--webui-port", "0"]
        running.enter_context(_running("master.Master", master, folder / "master.log", "New state: ALIVE"))
        for number, own in enumerate(ports):
            words = ["--host", HOST, "--port", str(own), "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            words += ["--work-dir", str(folder / f"worker-{number}"), address]
            log = folder / f"worker-{number}.log"
            running.enter_context(_running("worker.Worker", words, log, "Successfully registered"))
        yield address


@contextmanager
def _running(name: str, words: list[str], log: Path, started: str) -> Iterator[None]:
    command = [str(HOME / "bin" / "spark-class"), f"{_CLASSES}.{name}", *words]
    with log.open("wb") as out:
        process = spawn(command, stdout=out, stderr=subprocess.STDOUT, env=environment())
    try:
        wait_for_line(process, log, started, _START_SECONDS)
        yield
    finally:
        end(process, kill=True)


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
    with master_and_workers(tmp_path, workers=2) as master:
        submit = [str(HOME / "bin" / "spark-submit"), "--master", master]
        submit += ["--conf", "spark.executor.memory=512m", "--conf", "spark.sql.shuffle.partitions=2"]
        submit += ["--jars", ",".join(files["jars"]), "--py-files", files["zip"], files["program"]]
        chosen = arguments(source, tmp_path / "submitted", "--once", "--json", master="")
        output = run([*submit, *chosen], env=environment(), cwd=tmp_path).splitlines()
        executors = [path for number in range(2) for path in (tmp_path / f"worker-{number}").glob("app-*/*/stderr")]
    # spark-submit mixes standard error into standard output
    batches = [json.loads(line) for line in output if line.startswith("{")]
    assert sum(batch["records"] for batch in batches) == len(made)
    assert len({path.parents[2] for path in executors}) == 2, "a worker had nothing to do"
    assert in_tables(spark, tmp_path / "submitted") == truth(made)


def test_a_master_without_workers_is_waited_for_as_long_as_the_settings_say(tmp_path: Path) -> None:
    """A job that no worker takes ends after the configured time, with an error that says so."""
    with master_and_workers(tmp_path, workers=0) as master:
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
