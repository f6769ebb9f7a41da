"""A standalone Spark master and its workers on this machine's loopback, started from PySpark's own classes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

from lab.sandbox.processes import end, spawn, wait_for_line
from lab.sandbox.settings import HOST, free_ports

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
