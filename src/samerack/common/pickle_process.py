"""Runs a program of ours as a process that answers pickles and may be killed at any time: no solver can be interrupted.

The program reads messages from standard input and writes answers to standard output; it ends when its input ends.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import suppress
from typing import Any, Final

FAILURES: Final = (OSError, EOFError, ValueError, pickle.UnpicklingError)
"""What talking to a process raises that was killed or has died."""


class PickleProcess:
    """One process; for one thread at a time, but for `kill`."""

    def __init__(self, module: str, *arguments: str) -> None:
        """Start this module as a program; it answers when it has loaded what it needs."""
        self._process = subprocess.Popen(  # noqa: S603 - a program of ours
            [sys.executable, "-P", "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            OSError, ValueError: It has ended.
        """
        if self._process.stdin is None:
            raise OSError
        pickle.dump(message, self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
        self._process.stdin.flush()

    def receive(self) -> Any:
        """Wait for the next answer and return it.

        Raises:
            OSError, EOFError, ValueError, UnpicklingError: It has ended.
        """
        if self._process.stdout is None:
            raise OSError
        return pickle.load(self._process.stdout)  # noqa: S301 - from a process that this one started

    def kill(self) -> None:
        """Kill it; whoever waits for an answer gets one of `FAILURES`."""
        self._process.kill()

    def end(self) -> None:
        """Kill it and free what belongs to it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # closing fails if buffered data cannot be written any more
                    pipe.close()
