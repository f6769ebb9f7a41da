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
from typing import IO, Final

from lab.sandbox.errors import SandboxError

PATIENCE: Final = float(os.environ.get("SANDBOX_PATIENCE", "1"))
"""A factor of all limits of waiting, for busy machines. It costs nothing where the fact comes."""


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
    """Start a program that the kernel kills when this program ends; it leads a process group of its own.

    `env` is its whole environment; the arguments are those of `subprocess.Popen`.
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
    """End a process that `spawn` started and all of its group; return its exit code, or minus the signal that ended it.

    SIGTERM may take `timeout` seconds before SIGKILL follows; `kill` sends SIGKILL at once.
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
    """Wait until a process has logged a line with this text, after it started to write at `start`.

    The timeout is multiplied by `PATIENCE`.
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
