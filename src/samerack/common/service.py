"""A service: a part of the agent on a thread of its own, which does its turns until it is stopped.

This module has what all services share: the loop, the pauses, waking, stopping, and what is kept and logged of a
failure. One failed turn ends no service. What failed is tried again after pauses that double, up to a limit, until it
succeeds.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from contextvars import copy_context
from dataclasses import dataclass
from typing import ClassVar, Final

import structlog

from samerack.common.errors import AgentError, RefusedError, one_line

_MAX_DOUBLINGS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPauses:
    """The pauses after failures in a row, in seconds: each is twice as long as the one before."""

    first: float
    most: float  # the longest
    free: int = 0  # how many failures have no pause

    def after(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row."""
        if failures <= self.free:
            return 0.0
        return min(self.most, self.first * 2.0 ** min(failures - self.free - 1, _MAX_DOUBLINGS))


REQUESTS: Final = RetryPauses(first=0.1, most=0.5, free=2)
"""For requests to a coordinator: a new member id, or a rebalance that another one replaces, is normal, and the longest
pause is well below every session timeout. kafka-python repeats some requests at once and others after a constant 0.1 s,
for as long as a call waits: a broker that always refuses would get thousands of requests a second."""
REFUSALS: Final = RetryPauses(first=2.0, most=60.0)
"""For connections that one side refuses: a retry soon changes nothing, and many clients that retry overload brokers."""


class Attempts:
    """Counts failures in a row."""

    def __init__(self, pauses: RetryPauses) -> None:
        """Start without failures."""
        self.failures = 0
        self._pauses = pauses

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next attempt."""
        return self._pauses.after(self.failures)

    def failed(self) -> float:
        """Count a failed attempt; return how long to wait before the next."""
        self.failures += 1
        return self.pause_seconds

    def succeeded(self) -> None:
        """Reset the count after a successful attempt."""
        self.failures = 0


log = structlog.get_logger("service")

ONE_SECOND: Final = RetryPauses(first=1.0, most=1.0)


class Service(threading.Thread):
    """Does `turn` again and again; `stop` and `wake` may be called from any thread."""

    failure_event: ClassVar = "poll-failed"
    """The name of the log event of a failed turn."""
    expected_errors: ClassVar[tuple[type[Exception], ...]] = (AgentError,)
    """Errors that are logged in one line, once while they stay the same; others are logged with a traceback."""
    may_hurry: ClassVar[bool] = True
    """Whether `wake` shortens the pause after a failed turn, unless it was refused."""
    is_awaited: ClassVar[bool] = False
    """Whether the agent ends only when the thread has ended, or no time is left."""

    def __init__(self, name: str, *, retries: RetryPauses = ONE_SECOND) -> None:
        """Prepare a thread of this name; `retries` are the pauses after failed turns, other than refused ones."""
        super().__init__(name=name, daemon=True)
        self.last_error = ""
        """Why the last turn failed; empty while turns succeed."""
        self.was_refused = False
        """Whether the last turn failed because one side refuses the other."""
        self._log_context = copy_context()
        """That of the constructor: what it says in a log, such as the cluster, the thread says as well."""
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._retries = Attempts(retries)
        self._refusals = Attempts(REFUSALS)

    @abstractmethod
    def turn(self) -> float:
        """Do one turn; return the seconds until the next one, which `wake` may shorten."""

    def failed(self, error: Exception) -> None:
        """Handle a failed turn, before its pause."""

    def ended(self) -> None:
        """Clean up: called once, on the thread, after the last turn."""

    def wake(self) -> None:
        """Start the next turn at once, or after the present one."""
        self._wake.set()

    def stop(self) -> None:
        """Ask the thread to end after the present turn."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Do turns until stopped."""
        self._log_context.run(self._do_turns)

    def _do_turns(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                pause = self.turn()
            except Exception as error:  # noqa: BLE001 - one failed turn must not end the service
                self._record(error)
                self.failed(error)
                self._rest_after_failure()
            else:
                self._succeeded()
                if not self._stopping.is_set():  # `stop` may have come before the wake was cleared
                    self.rest(pause)
        try:
            self.ended()
        except Exception as error:
            log.exception(self.failure_event, service=self.name, error=one_line(error))

    def rest(self, seconds: float) -> None:
        """Wait for the next turn; `wake` ends the wait."""
        self._wake.wait(seconds)

    def _succeeded(self) -> None:
        self.last_error, self.was_refused = "", False
        self._retries.succeeded()
        self._refusals.succeeded()

    def _rest_after_failure(self) -> None:
        """Count the failure, and wait for the pause after it."""
        if self.was_refused:
            self._stopping.wait(self._refusals.failed())
            return
        self._refusals.succeeded()
        pause = self._retries.failed()
        if self.may_hurry and not self._stopping.is_set():
            self.rest(pause)
        else:
            self._stopping.wait(pause)

    def _record(self, error: Exception) -> None:
        """Keep and log why a turn failed."""
        text = str(error) if isinstance(error, AgentError) else one_line(error)
        self.was_refused, before, self.last_error = isinstance(error, RefusedError), self.last_error, text
        if not isinstance(error, self.expected_errors):
            log.exception(self.failure_event, service=self.name, error=text)
        elif text != before:
            self.report(text)

    def report(self, trouble: str) -> None:
        """Log why a turn failed, in one line."""
        log.warning(self.failure_event, service=self.name, error=trouble)
