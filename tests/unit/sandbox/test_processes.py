"""Children end with their parent, however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.errors import SandboxError
from sandbox.processes import end, spawn, wait_for_line


def _gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_child_ends_when_its_parent_is_killed() -> None:
    """After kill -9 of the program that started it, a child ends, even if an ended thread had started it."""
    program = """
import subprocess, sys, threading, time
from sandbox.processes import spawn
def start():
    print(spawn(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid, flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.2)
        os.kill(child, 0)
        parent.send_signal(signal.SIGKILL)
        assert _gone(child)


def test_a_stubborn_child_is_killed() -> None:
    """A child that ignores SIGTERM is killed after the timeout, together with its own children."""
    script = "trap '' TERM; sleep 60 & echo $!; while :; do wait; done"
    process = spawn(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    assert end(process, timeout=0.2) == -signal.SIGKILL
    assert _gone(grandchild)
    process.stdout.close()


def test_an_early_end_shows_the_log(tmp_path: Path) -> None:
    """If the process ends early, waiting for a line fails with the log's last lines."""
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = spawn(["sh", "-c", "echo first; echo last; exit 3"], stdout=out, stderr=subprocess.STDOUT)
        with pytest.raises(SandboxError, match=r"exit code 3[^$]*last"):
            wait_for_line(process, log, "never", timeout=10)
    wait_for_line(process, log, "last", timeout=1)


def test_a_missing_program_is_named() -> None:
    """The error names the missing program and what installs it."""
    with pytest.raises(SandboxError, match=r"no-such-program.*scripts/setup"):
        spawn(["no-such-program"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
