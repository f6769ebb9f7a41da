"""Keeps the cluster that all live tests of a run share: `python -m tests.integration.shared_cluster FILE`.

Its brokers have samerack's assignor, and members of the new protocol hear of a new assignment within a second. The
program starts the cluster, writes to FILE how to reach it, and removes it when its standard input ends, which is when
the program that started it ends, however that ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab.sandbox import broker_assignor
from lab.sandbox.admin import wait_until
from lab.sandbox.errors import SandboxError
from tests.integration.cluster import ContainerCluster

QUICK: Final = {"group.consumer.min.heartbeat.interval.ms": "1000", "group.consumer.heartbeat.interval.ms": "1000"}
"""Members of the new protocol hear of a new assignment after a second, not after five."""
_START_SECONDS: Final = 300.0


def _prepared() -> ContainerCluster:
    return ContainerCluster(properties={**broker_assignor.SETTING, **QUICK}, jars=[broker_assignor.jar()], steady=True)


@contextmanager
def shared() -> Iterator[ContainerCluster]:
    """The cluster that the run keeps, by the file that SANDBOX_CLUSTER names; else one of this process's own.

    Raises:
        SandboxError: it did not start.
    """
    cluster, named = _prepared(), os.environ.get("SANDBOX_CLUSTER")
    if named is None:
        with cluster:
            yield cluster
        return
    file = Path(named)
    wait_until(file.exists, "the cluster of this run has started", timeout=_START_SECONDS)
    content = json.loads(file.read_text(encoding="utf-8"))
    if "error" in content:
        raise SandboxError(content["error"])
    cluster.attach(content)
    yield cluster


def _write(file: Path, content: dict[str, object]) -> None:
    written = file.with_suffix(".new")
    written.write_text(json.dumps(content), encoding="utf-8")
    written.rename(file)


def _keep(file: Path) -> None:
    try:
        with _prepared() as cluster:
            _write(file, cluster.handle())
            sys.stdin.read()
    except Exception as error:
        _write(file, {"error": repr(error)})  # else tests would wait for the cluster until their time is over
        raise


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C ends the tests first, and they close our input
    _keep(Path(sys.argv[1]))
