"""Calls functions in a process that may be killed at any time: no solver can be interrupted.

The process (`common.pickle_worker`) keeps what it has loaded, and what a function keeps in its module.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO, Any, Final, cast

_FAILURES: Final = (OSError, EOFError, ValueError, pickle.UnpicklingError)
"""What talking to a process raises that was killed or has died."""


class CallError(Exception):
    """The function failed; the message is its error in one line."""


class PickleProcess:
    """One process; for one thread at a time."""

    def __init__(self, *folders: str) -> None:
        """Start it; modules are found in these folders too, after all others.

        Raises:
            OSError: The machine has no room for it.
        """
        self._process = subprocess.Popen(  # noqa: S603 - a program of ours
            [sys.executable, "-P", "-m", "samerack.common.pickle_worker", *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._calls = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def call(self, module: str, function: str, *arguments: Any, seconds: float) -> Any:
        """Return what a function of a module returns there; without an answer after so many seconds, kill the process.

        Raises:
            CallError: The function failed; the process can be called again.
            TimeoutError: There is no answer in time.
            EOFError: The process has died.
        """
        end = time.monotonic() + seconds
        late = threading.Timer(seconds, self._process.kill)
        late.daemon = True
        late.start()
        try:
            pickle.dump((module, function, arguments, seconds), self._calls, protocol=pickle.HIGHEST_PROTOCOL)
            self._calls.flush()
            answer, failure = pickle.load(self._answers)  # noqa: S301 - from a process that this one started
        except _FAILURES as error:
            self.end()
            raise (EOFError if time.monotonic() < end else TimeoutError)() from error
        except BaseException:
            self.end()  # the next call would get the answer of this one
            raise
        finally:
            late.cancel()
        if failure:
            raise CallError(failure)
        return answer

    def end(self) -> None:
        """Kill it and free what belongs to it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._calls, self._answers):
            with suppress(OSError):  # closing fails if buffered data cannot be written any more
                pipe.close()
