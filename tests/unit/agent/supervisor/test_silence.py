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

from samerack.agent.supervisor.silence import Silence

_HOG = "while True: pass"
_SUPERVISOR = """
import os, sys, time
from samerack.agent.supervisor.line import ALIVE
from tests.unit.agent.supervisor.programs import run_until_death

processor = int(sys.argv[1])

def work(line, /, *, observing, why):
    os.sched_setaffinity(0, {processor})
    line.sendall(ALIVE)
    print("alive", flush=True)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        line.sendall(ALIVE)

run_until_death(work)
"""
"""A supervisor whose worker needs 20 ms of a processor for a sign of life, at a priority that gives it 60 in 20 s."""
_STARVES_SECONDS = 2.0
"""Twice the silence allowed for a worker that has processor time."""


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
    """A supervisor that was late itself took three turns of 0.38 s, measured once, for a second of silence."""
    silence = Silence(os.getpid(), now=0.0)
    silence.end()
    for turn in (1, 2, 3):
        silence.measure(turn * 0.38, expected=0.4)
    assert silence.seconds < 1.0


def test_a_starved_worker_is_waited_for_and_a_stopped_one_is_not(busy_processor: int) -> None:
    """At a load of fifty, four workers in a row were killed, since each successor had no processor time either."""
    line = [sys.executable, "-c", _SUPERVISOR, str(busy_processor)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as supervisor:
        try:
            assert supervisor.stdout is not None
            said = _lines(supervisor.stdout)
            assert said.get(timeout=20) == "alive"
            with pytest.raises(queue.Empty):
                said.get(timeout=_STARVES_SECONDS)
            (worker,) = psutil.Process(supervisor.pid).children()
            worker.send_signal(signal.SIGSTOP)
            assert said.get(timeout=20) == "died: no sign of life for 1 s"
        finally:
            for child in psutil.Process(supervisor.pid).children():
                child.kill()
            supervisor.kill()
