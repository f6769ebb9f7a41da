"""A successor is kept ready: it takes the place of a worker that dies, and ends with the supervisor."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.supervisor import watchdog
from agent.supervisor.lifeline import wait_to_begin
from agent.supervisor.watchdog import Supervisor
from common.settings import SupervisorSettings

# Tells that it is loaded, waits for the word to begin, tells that it works and why, and gives signs of life.
_WORKER = """
import os, pathlib, socket, sys, time
from agent.supervisor.lifeline import wait_to_begin
folder, line = pathlib.Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
(folder / f"loaded-{os.getpid()}").touch()
why = wait_to_begin(line)
if why is None:
    (folder / f"dropped-{os.getpid()}").touch()
    sys.exit()
(folder / f"works-{os.getpid()}").write_text(why)
while True:
    line.sendall(b"\\n")
    time.sleep(0.05)
"""


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """A supervisor of such workers; whoever runs it in the main thread ends it by its signal."""
    monkeypatch.setattr(watchdog, "_SPARE_SECONDS", 0.0)
    monkeypatch.setattr(signal, "signal", lambda _number, _handler: None)
    command = [sys.executable, "-c", _WORKER, str(tmp_path)]
    supervisor = Supervisor(SupervisorSettings(), kafka={}, command=command, observing=command)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    yield supervisor
    supervisor._on_signal(signal.SIGTERM, None)
    thread.join()


def _one(folder: Path, pattern: str, *, but: int = 0) -> int:
    """The process that has told this, another than `but`; waited for."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for path in folder.glob(f"{pattern}-*"):
            if (process := int(path.name.rpartition("-")[2])) != but:
                return process
        time.sleep(0.02)
    raise AssertionError(f"nobody told {pattern}")


def test_the_successor_is_loaded_before_the_worker_dies(supervised: Supervisor, tmp_path: Path) -> None:
    """It begins when the other is gone, is told why, and another is loaded after it."""
    worker = _one(tmp_path, "works")
    spare = _one(tmp_path, "loaded", but=worker)
    assert not (tmp_path / f"works-{spare}").exists()
    os.kill(worker, signal.SIGKILL)
    assert _one(tmp_path, "works", but=worker) == spare
    assert (tmp_path / f"works-{spare}").read_text(encoding="utf-8") == "exit code -9"
    assert supervised._known == frozenset()


@pytest.mark.usefixtures("supervised")
def test_a_spare_that_died_is_not_waited_for(tmp_path: Path) -> None:
    """A worker is started anew, as if there had been none."""
    worker = _one(tmp_path, "works")
    spare = _one(tmp_path, "loaded", but=worker)
    os.kill(spare, signal.SIGKILL)
    time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    assert _one(tmp_path, "works", but=worker) != spare


def test_no_spare_where_none_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By settings, and while groups are only observed."""
    monkeypatch.setattr(watchdog, "_SPARE_SECONDS", 0.0)
    command = [sys.executable, "-c", _WORKER, str(tmp_path)]
    for settings, observing in ((SupervisorSettings(spare=False), False), (SupervisorSettings(), True)):
        supervisor = Supervisor(settings, kafka={}, command=command, observing=command)
        supervisor._observing = observing
        worker = supervisor._next()
        worker.begin(0.0, "")
        worker.last_sign = 1.0
        supervisor._keep_spare(worker, 100.0)
        assert supervisor._spare is None
        worker.kill()
        worker.close()


def test_a_spare_ends_with_its_supervisor() -> None:
    """Nobody is left to tell it to begin."""
    ours, theirs = socket.socketpair()
    ours.close()
    assert wait_to_begin(theirs) is None
    theirs.close()


def test_the_word_to_begin_has_a_reason_or_none() -> None:
    """The first worker takes nobody's place."""
    for said, why in ((b"\n", ""), (b"exit code -9\n", "exit code -9")):
        ours, theirs = socket.socketpair()
        ours.sendall(said)
        assert wait_to_begin(theirs) == why
        ours.close()
        theirs.close()
