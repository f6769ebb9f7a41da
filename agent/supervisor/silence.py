"""Measures how long a process has given no sign of life although it could: on a busy machine, silence proves nothing.

The kernel counts for each thread how long it ran, and how long it was ready to run and had to wait for a processor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

_MEASURED_AFTER_SECONDS: Final = 0.4
"""Two signs of life are missing: from here on it is measured whether the process is let run at all."""
_MAX_STARVED_SECONDS: Final = 30.0
"""So much is excused in one silence: more than any session, after which groups have gone on without the process."""
_RUNNABLE: Final = "R"


class _Thread(NamedTuple):
    """What the kernel tells of one thread: nanoseconds that it ran and waited, and whether it is ready to run."""

    ran: int
    waited: int
    runnable: bool


class Silence:
    """The silence of one process, looked at in turns."""

    def __init__(self, process: int | None, *, now: float) -> None:
        """The process has just been started.

        Args:
            process: Its id; None where it is gone already.
            now: Monotonic seconds.
        """
        self._process = process
        self._looked_at = now
        self._threads: dict[int, _Thread] = {}
        self._starved = 0.0
        self.seconds = 0.0
        """How long it has been silent although it could have run."""
        self.is_first = True
        """Whether it has not given any sign of life yet."""

    def end(self) -> None:
        """A sign of life."""
        self.is_first = False
        self._forget()

    def look(self, now: float, *, expected: float) -> None:
        """Add what has passed since the look before.

        Args:
            now: Monotonic seconds.
            expected: What should have passed at most. Where more has, this process was not let run either.
        """
        elapsed, self._looked_at = now - self._looked_at, now
        if elapsed > expected:
            if not self.is_first:
                self._forget()
            return
        if self.seconds > _MEASURED_AFTER_SECONDS and self._starved < _MAX_STARVED_SECONDS:
            starved = self._starved_seconds(elapsed)
            self._starved += starved
            elapsed -= starved
        self.seconds += elapsed

    def _forget(self) -> None:
        self.seconds = self._starved = 0.0
        self._threads = {}

    def _starved_seconds(self, elapsed: float) -> float:
        """How much of the time since the look before the process was ready to run and was not let.

        That of the thread that waited longest: threads of Python wait for each other, too. A process that is stopped,
        blocked or computing has not waited; where the kernel does not count, none has.
        """
        before, self._threads = self._threads, _threads(self._process)
        starved = 0.0
        for number, now in self._threads.items():
            if (then := before.get(number)) is None:
                continue
            starved = max(starved, (now.waited - then.waited) / 1e9)
            if now.runnable and then.runnable and now.ran == then.ran:
                return elapsed  # the kernel counts a wait only when it is over
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
