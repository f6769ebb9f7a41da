"""Starts child processes that never outlive this program.

Brokers and members run as separate processes. Each is in its own process group, so that Ctrl-C in a terminal reaches
only this program, which ends them in order; and the kernel kills each when this program ends in any way, kill -9
included. The kernel's parent-death signal is bound to the *thread* that started the child, so one thread that runs as
long as the program starts all of them.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO

from lab.sandbox.errors import SandboxError
from lab.sandbox.patience import PATIENCE


@cache
def _spawner() -> ThreadPoolExecutor:
    """Return the one thread that starts children."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox-spawner")


def spawn(
    command: Sequence[str],
    *,
    stdout: IO[bytes] | int,
    stderr: IO[bytes] | int,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that the kernel kills when this program ends.

    Args:
        command: program and arguments.
        stdout: where its standard output goes, as for `subprocess.Popen`.
        stderr: where its standard error goes.
        env: its whole environment; None is ours.
        cwd: its working folder; None is ours.

    Returns:
        The running process, leader of its own process group.
    """
    program = shutil.which(command[0])
    if program is None:
        raise SandboxError(
            f"cannot start {command[0]!r}: no such program; scripts/setup installs what the sandbox needs"
        )
    guard = shutil.which("setpriv")
    prefix = [guard, "--pdeathsig", "KILL"] if guard else []

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - programs that the sandbox chooses, without a shell
            [*prefix, program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=None if env is None else dict(env),
            cwd=cwd,
            process_group=0,
        )

    return _spawner().submit(start).result()


def end(process: subprocess.Popen[bytes], *, kill: bool = False, timeout: float = 30.0) -> int:
    """End a process and all of its group, and wait for it.

    Args:
        process: what `spawn` returned.
        kill: send SIGKILL at once instead of SIGTERM first.
        timeout: seconds that SIGTERM may take before SIGKILL follows.

    Returns:
        Its exit code; negative is the signal that ended it.
    """
    if process.poll() is None and not kill:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def tail(path: Path, lines: int = 30) -> str:
    """Return the last lines of a text file, or say that there are none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""
    return "\n".join(text.splitlines()[-lines:]) or f"({path.name} is empty)"


def wait_for_line(process: subprocess.Popen[bytes], log: Path, needle: str, timeout: float, *, start: int = 0) -> None:
    """Wait until a process has logged a line.

    Args:
        process: the process that writes the log.
        log: the file.
        needle: what the line contains.
        timeout: seconds to wait, times `PATIENCE`.
        start: position in the file where this process started to write.
    """
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    while True:
        ended = process.poll() is not None  # checked before the log is read, so that a line written at the end counts
        if log.exists() and needle.encode() in log.read_bytes()[start:]:
            return
        if ended:
            raise SandboxError(f"ended with exit code {process.returncode} before it logged {needle!r}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise SandboxError(f"did not log {needle!r} within {timeout:.0f} s:\n{tail(log)}")
        time.sleep(0.05)
