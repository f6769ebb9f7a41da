"""Runs blocking code in virtual time: on its own thread, but never in parallel with other code.

The agent's group thread blocks while it waits for brokers or for the next turn. Here such a wait returns control to the
timeline, which resumes the thread at the right time: one thread at a time, always in the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Killed(BaseException):
    """The process was killed: its code runs no further."""


class Fiber:
    """One run of blocking code."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._body = body
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._doomed = False
        self.ended = False

    def resume(self) -> None:
        """Run the code until it parks or ends; its exceptions are raised here."""
        if self.ended:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fiber", daemon=True)
            self._thread.start()
        self._go.release()
        self._back.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def kill(self) -> None:
        """End the code where it is parked; it must not call this itself."""
        self._doomed = True
        if self._thread is None:
            self.ended = True
        while not self.ended:
            self.resume()

    def park(self) -> None:
        """Return control to the caller of `resume`; only for the code itself."""
        self.heed()
        self._back.release()
        self._go.acquire()
        self.heed()

    def heed(self) -> None:
        """Stop here if the code was killed."""
        if self._doomed:
            raise Killed

    def is_current(self) -> bool:
        """Whether the caller is this code."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - `resume` raises it
            self._error = error
        self.ended = True
        self._back.release()
