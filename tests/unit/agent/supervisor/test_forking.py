"""Workers are forks of the supervisor: a successor starts at once, and no thread runs that a fork would lose."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from samerack.agent import process
from tests.unit.waiting import LONGEST_SECONDS, until

_PARENT = """
import json, os, socket, sys
from samerack.agent import process
from samerack.agent.supervisor import worker

started = []

def note(event, given):
    # the pair of sockets between supervisor and worker is AF_UNIX
    if event == "_thread.start_new_thread" or (event == "socket.__new__" and given[1] != socket.AF_UNIX):
        started.append(event)

def observe(*given, **named):
    ours = {name.partition(".")[0] for name in sys.modules}
    print(json.dumps({
        "tasks": len(os.listdir("/proc/self/task")),
        "started": started,
        "loaded": sorted(ours & {"kafka", "numpy", "pydantic", "starlette", "structlog", "yaml", "uvicorn"}),
    }), flush=True)
    os._exit(0)

worker.fork = observe
sys.addaudithook(note)
process.main(process.RunRequest(bootstrap=["127.0.0.1:1"], groups=["orders"]))
"""
_LOADED = """
import gc, json, sys
from samerack.agent import process
from samerack.agent.supervisor.protocol import WorkerStart

request = process.RunRequest(bootstrap=["127.0.0.1:1"], groups=["orders"], assignments=json.loads(sys.argv[1]))
process.skip_unused_imports()
from samerack.agent import program

def observe(*given, **named):
    print(gc.get_freeze_count() > 50_000, [name for name in json.loads(sys.argv[2]) if sys.modules.get(name)])

program.run = observe
process.AgentProcesses(request).work(WorkerStart(), None)
"""
_STANDBY = """
import sys
from samerack.agent import process
process.skip_unused_imports()
from samerack.agent.program import Agent
from tests.unit.agent.supervisor.programs import source_of_a_test

settings = source_of_a_test().settings
agent = Agent(settings.model_copy(update={"web": settings.web.model_copy(update={"port": 0})}))
agent.clusters[""].parts.metrics.exposition()
print("numpy._core" in sys.modules)
"""
_SELDOM_USED = (
    "confluent_kafka",
    "hypothesis",
    "jinja2",
    "kafka.admin",
    "kafka.producer",
    "kio",
    "networkx",
    "numpy._core",
    "ortools",
    "rich",
    "typer",
)
_LOADING = """
import time
from samerack.agent import process, program

def get_ready(settings):
    print("loading", flush=True)
    time.sleep(60)

program.get_ready = get_ready
process.main(process.RunRequest(bootstrap=["127.0.0.1:1"], groups=["orders"]))
"""
_SUPERVISOR = """
import os, pathlib, sys, time
from samerack.agent.supervisor.protocol import ALIVE
from samerack.agent.supervisor.watchdog import Supervisor
from tests.unit.agent.supervisor.programs import ProcessesOfATest

folder = pathlib.Path(sys.argv[1])

def work(start, line):
    partial = folder / f"partial-{os.getpid()}"
    partial.write_text(start.why)
    partial.rename(folder / f"works-{os.getpid()}")
    while True:
        line.sendall(ALIVE)
        time.sleep(0.05)

sys.exit(Supervisor(ProcessesOfATest(work)).run())
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor whose workers write a file with the reason of their start, and send signs of life."""
    with subprocess.Popen([sys.executable, "-c", _SUPERVISOR, str(tmp_path)]) as process:
        yield process
        process.kill()


def _worker(folder: Path, *, but: int = 0) -> int:
    """The process id of a worker other than `but`; waits for it."""

    def others() -> list[int]:
        return [one for path in folder.glob("works-*") if (one := int(path.name.rpartition("-")[2])) != but]

    assert until(others), "nobody works"
    return others()[0]


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
    assert supervisor.wait(LONGEST_SECONDS) == 1  # this worker ends by the signal itself, not with exit code 0
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_a_worker_hears_that_its_supervisor_is_gone(supervisor: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The worker has no copy of the supervisor's end of the socket, so it sees the end."""
    worker = psutil.Process(_worker(tmp_path))
    supervisor.kill()
    supervisor.wait()
    assert psutil.wait_procs([worker], timeout=LONGEST_SECONDS)[1] == []


def test_a_standby_loads_no_arrays() -> None:
    """An agent that may never lead or measure does without numpy, which takes as much memory as all of its own code."""
    done = subprocess.run([sys.executable, "-c", _STANDBY], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_a_late_module_is_loaded_once_by_many_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them finds all of it, however slowly it loads, and so does whoever imports it afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slowly.py").write_text("import time\nfirst = 1\ntime.sleep(0.2)\nlast = object()\n", encoding="utf-8")
    late = process.LateModule("slowly")
    monkeypatch.setitem(sys.modules, "slowly", late)
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: late.last, range(8)))
    assert found == {importlib.import_module("slowly").last}
    with pytest.raises(AttributeError, match="slowly"):
        late.missing  # noqa: B018 - it is asked for


def test_the_parent_starts_nothing_that_a_fork_would_lose() -> None:
    """Before its first fork it has no thread and no connection, and none of the libraries that take memory."""
    done = subprocess.run([sys.executable, "-c", _PARENT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"tasks": 1, "started": [], "loaded": []}


@pytest.mark.parametrize(
    ("assignments", "loaded"),
    [
        pytest.param([], [], id="with an election"),
        # with other settings one package more is loaded, which takes two seconds
        pytest.param(["election.group="], ["numpy._core", "ortools"], id="alone", marks=pytest.mark.extended),
        pytest.param(["publishing.traffic_topic=t"], ["confluent_kafka"], id="publishing", marks=pytest.mark.extended),
    ],
)
def test_a_worker_loads_what_its_settings_need(assignments: list[str], loaded: list[str]) -> None:
    """It has that before it connects, and what is loaded is garbage to nobody."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, json.dumps(assignments), json.dumps(_SELDOM_USED)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **process.ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"True {loaded}\n"


def test_sigterm_while_it_loads_ends_it() -> None:
    """SIGTERM ends it with exit code 0, also as process 1 of a container, which needs a handler for that."""
    with subprocess.Popen([sys.executable, "-c", _LOADING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_SECONDS) == 0
