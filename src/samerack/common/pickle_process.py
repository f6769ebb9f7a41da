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
    """One process, which a call starts unless it runs; for one thread at a time, but for `end`."""

    def __init__(self, *folders: str) -> None:
        """Prepare; modules are found in these folders too, after all others."""
        self._folders = folders
        self._process: subprocess.Popen[bytes] | None = None
        self._has_answered = False

    @property
    def is_ready(self) -> bool:
        """Whether it runs, and has answered since it started: what it needs is loaded."""
        return self._has_answered and self._process is not None and self._process.poll() is None

    def call(self, module: str, function: str, *arguments: Any, seconds: float) -> Any:
        """Return what a function of a module returns there; kill the process if that takes longer than `seconds`.

        Raises:
            CallError: The function failed; the process goes on.
            TimeoutError: There is no answer in time.
            EOFError: The process has died.
            OSError: The machine has no room for it.
        """
        process = self._running()
        calls, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        end = time.monotonic() + seconds
        late = threading.Timer(seconds, process.kill)
        late.daemon = True
        late.start()
        try:
            pickle.dump((module, function, arguments, seconds), calls, protocol=pickle.HIGHEST_PROTOCOL)
            calls.flush()
            answer, failure = pickle.load(answers)  # noqa: S301 - from a process that this one started
        except _FAILURES as error:
            self.end()
            raise (EOFError if time.monotonic() < end else TimeoutError)() from error
        except BaseException:
            self.end()  # the next call would get the answer of this one
            raise
        finally:
            late.cancel()
        self._has_answered = True
        if failure:
            raise CallError(failure)
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process, after starting it unless it runs."""
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = subprocess.Popen(  # noqa: S603 - a program of ours
                [sys.executable, "-P", "-m", "samerack.common.pickle_worker", *self._folders],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._process

    def end(self) -> None:
        """Kill it and free what belongs to it."""
        self._has_answered = False
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # closing fails if buffered data cannot be written any more
                    pipe.close()
