"""Code that waits, run in virtual time: on a thread of its own, but never at the same time as anything else.

The agent's group thread blocks where it waits for brokers or for the next turn. Here such a wait hands control back to
the timeline, which hands it on when time has come: one thread at a time, always in the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Killed(BaseException):
    """The process is gone: whatever it was about to do does not happen."""


class Fiber:
    """One such run of code."""

    def __init__(self, body: Callable[[], None]) -> None:
        """Prepare; `resume` begins.

        Args:
            body: What to run.
        """
        self._body = body
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._doomed = False
        self.ended = False

    def resume(self) -> None:
        """Let it run until it parks or ends; what it raises is raised here."""
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
        """End it where it is parked; not to be called by itself."""
        self._doomed = True
        if self._thread is None:
            self.ended = True
        while not self.ended:
            self.resume()

    def park(self) -> None:
        """Hand control back; only from within.

        Raises:
            Killed: It has been killed meanwhile.
        """
        self.heed()
        self._back.release()
        self._go.acquire()
        self.heed()

    def heed(self) -> None:
        """Go no further once killed.

        Raises:
            Killed: It is.
        """
        if self._doomed:
            raise Killed

    def give_up(self) -> None:
        """End here, for good; only from within.

        Raises:
            Killed: Always.
        """
        self._doomed = True
        raise Killed

    def is_current(self) -> bool:
        """Whether it is this code that asks."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever resumed
            self._error = error
        self.ended = True
        self._back.release()
