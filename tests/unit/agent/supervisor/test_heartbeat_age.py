"""A worker without processor time is waited for; one that does not run is replaced, also on a busy machine."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO

import psutil
import pytest

from samerack.agent.supervisor import worker
from samerack.agent.supervisor.worker import HeartbeatAge
from tests.unit.waiting import LONGEST_SECONDS

_HOG = "while True: pass"
_SUPERVISOR = """
import os, sys, time
from samerack.agent.supervisor.protocol import ALIVE
from tests.unit.agent.supervisor.programs import run_until_exit

processor = int(sys.argv[1])

def work(start, line):
    os.sched_setaffinity(0, {processor})
    line.sendall(ALIVE)
    print("alive", flush=True)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        line.sendall(ALIVE)

run_until_exit(work)
"""
"""A supervisor whose worker needs 20 ms of a processor for a sign of life, at a priority that gives it 60 in 20 s."""
_STARVES_SECONDS = 2.0  # twice the silence allowed for a worker that has processor time


@pytest.fixture
def busy_processor() -> Iterator[int]:
    """A processor that another process keeps busy."""
    processor = max(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", _HOG]) as hog:
        os.sched_setaffinity(hog.pid, {processor})
        yield processor
        hog.kill()


def _lines(stream: IO[str]) -> queue.Queue[str]:
    """The lines that a process prints, as they arrive."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in stream:
            lines.put(line.rstrip("\n"))

    threading.Thread(target=read, daemon=True).start()
    return lines


def test_without_two_measurements_nothing_is_proved() -> None:
    """A supervisor that was late itself took three turns of 0.38 s, measured once, for a second of worker."""
    measured = HeartbeatAge(os.getpid(), now=0.0)
    measured.reset()
    for turn in (1, 2, 3):
        measured.measure(turn * 0.38, expected=0.4)
    assert measured.seconds < 1.0


class Kernel:
    """The kernel's figures of a process with one thread, which the test changes."""

    def __init__(self) -> None:
        self.ran = self.waited = 0.0
        self.runnable = True

    def threads(self, _process: int | None) -> dict[int, worker._Thread]:
        """Return the figures."""
        return {1: worker._Thread(round(self.ran * 1e9), round(self.waited * 1e9), self.runnable)}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Replace the kernel."""
    made = Kernel()
    monkeypatch.setattr(worker, "_threads", made.threads)
    return made


def _measured(kernel: Kernel, *, ran: float, waited: float) -> float:
    """The silence after ten seconds, in which the process runs and waits for these parts of the time."""
    measured = HeartbeatAge(1, now=0.0)
    measured.reset()
    for turn in range(1, 101):
        kernel.ran += ran / 10
        kernel.waited += waited / 10
        measured.measure(turn / 10, expected=0.2)
    return measured.seconds


@pytest.mark.parametrize(
    ("ran", "waited", "runnable", "seconds"),
    [
        (0.0, 0.0, True, 0.4),  # the kernel counts a wait only after it has ended
        (0.1, 0.9, True, 0.4 + 0.96),
        (1.0, 0.0, True, 10.0),
        (0.0, 0.0, False, 10.0),
    ],
    ids=["waits for a processor", "gets a tenth of one", "computes", "is stopped"],
)
def test_waiting_for_a_processor_is_no_silence(
    kernel: Kernel,
    ran: float,
    waited: float,
    runnable: bool,  # noqa: FBT001 - a column of the table
    seconds: float,
) -> None:
    """A starved worker is waited for, since its successor had no processor time either; any other is replaced."""
    kernel.runnable = runnable
    assert _measured(kernel, ran=ran, waited=waited) == pytest.approx(seconds)


@pytest.mark.extended  # it needs two seconds of a processor that it keeps busy, and a kernel that counts waiting
def test_a_starved_worker_is_waited_for_and_a_stopped_one_is_not(busy_processor: int) -> None:
    """At a load of fifty, four workers in a row were killed, since each successor had no processor time either."""
    line = [sys.executable, "-c", _SUPERVISOR, str(busy_processor)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as supervisor:
        try:
            assert supervisor.stdout is not None
            printed = _lines(supervisor.stdout)
            assert printed.get(timeout=LONGEST_SECONDS) == "alive"
            with pytest.raises(queue.Empty):
                printed.get(timeout=_STARVES_SECONDS)
            (worker,) = psutil.Process(supervisor.pid).children()
            worker.send_signal(signal.SIGSTOP)
            assert printed.get(timeout=LONGEST_SECONDS) == "died: no heartbeat for 1 s"
        finally:
            for child in psutil.Process(supervisor.pid).children():
                child.kill()
            supervisor.kill()
