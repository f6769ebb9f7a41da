"""Children end with their parent, however it ends."""

import signal
import subprocess
import sys

import psutil

from tests.unit.waiting import until


def test_a_child_ends_when_its_parent_is_killed() -> None:
    """After kill -9 of the program that started it, a child ends, even if an ended thread had started it."""
    program = """
import subprocess, sys, threading, time
from sandbox.processes import spawn
def start():
    print(spawn(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid, flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        sleeping = psutil.Process(child)
        assert until(lambda: sleeping.name() == "sleep")  # before, what binds it to its parent is still running
        parent.send_signal(signal.SIGKILL)
        # whoever adopts it may never look at its exit code
        assert until(lambda: not sleeping.is_running() or sleeping.status() == psutil.STATUS_ZOMBIE)
