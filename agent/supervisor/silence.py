"""Measures how long a process has sent no sign of life although it could run: a busy machine also causes silence.

The kernel counts for each thread how long it ran, and how long it was ready to run and had to wait for a processor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

_UNMEASURED_SECONDS: Final = 0.4
"""Two missing signs of life; of all further silence, it is measured whether the process gets processor time."""
_MAX_STARVED_SECONDS: Final = 30.0
"""Most waiting time that is subtracted from one silence: longer than session timeouts, after which groups no longer
have the process as a member."""
_RUNNABLE: Final = "R"


class _Thread(NamedTuple):
    """The kernel's figures of one thread: nanoseconds that it ran and waited, and whether it is ready to run."""

    ran: int
    waited: int
    runnable: bool


class Silence:
    """The silence of one process, measured at intervals."""

    def __init__(self, process: int | None, *, now: float) -> None:
        """Start with a process that has just been started; None has ended already."""
        self._process = process
        self._measured_at = now
        self._is_measured = False
        self._threads: dict[int, _Thread] = {}
        self._starved = 0.0
        self.seconds = 0.0
        """How long it has been silent although it could have run."""
        self.is_first = True
        """Whether it has not sent any sign of life yet."""

    def end(self) -> None:
        """End the silence after a sign of life."""
        self.is_first = False
        self._forget()

    def measure(self, now: float, *, expected: float) -> None:
        """Add the time since the previous call.

        If more has passed than was `expected` at most, this process did not get to run either.
        """
        elapsed, self._measured_at = now - self._measured_at, now
        if elapsed > expected:
            if not self.is_first:
                self._forget()
            return
        if not self._is_measured:
            self.seconds = min(self.seconds + elapsed, _UNMEASURED_SECONDS)
            if self.seconds == _UNMEASURED_SECONDS:
                # on a busy machine the supervisor is late too: a second may pass in three turns
                self._is_measured, self._threads = True, _threads(self._process)
            return
        if self._starved < _MAX_STARVED_SECONDS:
            starved = self._starved_seconds(elapsed)
            self._starved += starved
            elapsed -= starved
        self.seconds += elapsed

    def _forget(self) -> None:
        self.seconds = self._starved = 0.0
        self._is_measured = False

    def _starved_seconds(self, elapsed: float) -> float:
        """Return how long since the previous call the process was ready to run but got no processor.

        This is the time of the thread that waited longest: Python threads wait for each other, too. A process that is
        stopped, blocked or computing has not waited; if the kernel does not count, none has.
        """
        before, self._threads = self._threads, _threads(self._process)
        starved = 0.0
        for number, now in self._threads.items():
            if (then := before.get(number)) is None:
                continue
            starved = max(starved, (now.waited - then.waited) / 1e9)
            if now.runnable and then.runnable and now.ran == then.ran:
                return elapsed  # the kernel counts a wait only after it has ended
        return min(elapsed, starved)


def _threads(process: int | None) -> dict[int, _Thread]:
    found = {}
    for task in Path(f"/proc/{process}/task").glob("*"):
        try:
            ran, waited, _ = (task / "schedstat").read_text(encoding="ascii").split()
            state = (task / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
        found[int(task.name)] = _Thread(int(ran), int(waited), state == _RUNNABLE)
    return found
