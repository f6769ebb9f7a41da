"""Workers are forks of the supervisor: a successor starts at once, and no thread runs that a fork would lose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

_LOADED = """
import os, threading
from samerack.cli import run
from samerack.agent.supervisor import watchdog

class Supervisor:
    def __init__(self, *given, **named):
        print(len(os.listdir("/proc/self/task")), threading.active_count())

    def run(self):
        return 0

watchdog.Supervisor = Supervisor
run.run(bootstrap="127.0.0.1:1", group=["orders"])
"""
_LOADING = """
import time
from samerack.agent import program
from samerack.cli import run

def get_ready():
    print("loading", flush=True)
    time.sleep(60)

program.get_ready = get_ready
run.run(bootstrap="127.0.0.1:1", group=["orders"])
"""
_SUPERVISOR = """
import os, pathlib, sys, time
from samerack.agent.supervisor.line import ALIVE
from samerack.agent.supervisor.watchdog import Supervisor
from samerack.common.settings import SupervisorSettings

folder = pathlib.Path(sys.argv[1])

def work(line, /, *, observing, why):
    partial = folder / f"partial-{os.getpid()}"
    partial.write_text(why)
    partial.rename(folder / f"works-{os.getpid()}")
    while True:
        line.sendall(ALIVE)
        time.sleep(0.05)

sys.exit(Supervisor(SupervisorSettings(), work=work, leave=lambda gone: None).run())
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor whose workers write a file with the reason of their start, and send signs of life."""
    with subprocess.Popen([sys.executable, "-c", _SUPERVISOR, str(tmp_path)]) as process:
        yield process
        process.kill()


def _worker(folder: Path, *, but: int = 0) -> int:
    """The process id of a worker other than `but`; waits for it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for path in folder.glob("works-*"):
            if (process := int(path.name.rpartition("-")[2])) != but:
                return process
        time.sleep(0.02)
    raise AssertionError("nobody works")


@pytest.mark.usefixtures("supervisor")
def test_a_successor_takes_the_place_of_a_worker_that_died(tmp_path: Path) -> None:
    """The successor gets the reason."""
    worker = _worker(tmp_path)
    assert (tmp_path / f"works-{worker}").read_text(encoding="utf-8") == ""
    os.kill(worker, signal.SIGKILL)
    successor = _worker(tmp_path, but=worker)
    assert (tmp_path / f"works-{successor}").read_text(encoding="utf-8") == "exit code -9"


def test_ctrl_c_is_the_supervisors(supervisor: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """A worker ignores SIGINT, and the supervisor ends it in order."""
    worker = _worker(tmp_path)
    os.kill(worker, signal.SIGINT)
    time.sleep(0.3)
    os.kill(worker, 0)
    supervisor.send_signal(signal.SIGINT)
    assert supervisor.wait(20) == 1  # this worker ends by the signal itself, not with exit code 0
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_a_worker_hears_that_its_supervisor_is_gone(supervisor: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The worker has no copy of the supervisor's end of the socket, so it sees the end."""
    worker = psutil.Process(_worker(tmp_path))
    supervisor.kill()
    supervisor.wait()
    assert psutil.wait_procs([worker], timeout=20)[1] == []


def test_no_thread_runs_where_workers_are_forked() -> None:
    """All that a worker needs is loaded then: solvers, clients, the web server."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    told = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert told.stdout == "1 1\n", told.stderr


def test_sigterm_while_it_loads_ends_it() -> None:
    """SIGTERM ends it with exit code 0, also as process 1 of a container, which needs a handler for that."""
    with subprocess.Popen([sys.executable, "-c", _LOADING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
