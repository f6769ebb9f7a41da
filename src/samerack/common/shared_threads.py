"""Runs many services on few threads: the work of each is a generator of pauses, and no thread waits for a pause.

A service that leads a consumer group is idle nearly all the time, and a thread of its own costs memory. Its steps may
block, on a broker that does not answer for example: then other services go on, on threads that are added.
"""

from __future__ import annotations

import heapq
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import ClassVar, Final

import structlog

log = structlog.get_logger("service")

_PATIENCE_SECONDS: Final = 0.01
"""How long a step that is due waits for a thread before one is added."""
_MAX_IDLE: Final = 4
"""Further threads end as soon as no step is due."""


@dataclass(frozen=True, slots=True)
class Rest:
    """How long a service has nothing to do: at most `seconds` (None: without limit), or until it is asked to stop."""

    seconds: float | None
    may_hurry: bool = True
    """Whether `wake` ends the pause."""


class SharedService(ABC):
    """A part of the agent that shares threads with others; `wake` and `stop` may be called from any thread."""

    is_awaited: ClassVar[bool] = False
    """Whether the agent ends only when the work has ended, or no time is left."""

    def __init__(self, name: str, threads: SharedThreads) -> None:
        """Prepare; `start` begins the work."""
        self.name = name
        self._threads = threads
        self._log_context = copy_context()
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._job: _Job | None = None

    @abstractmethod
    def work(self) -> Iterator[Rest]:
        """Do all work, on one thread at a time, and yield each pause; end soon once `_stopping` is set."""

    def start(self) -> None:
        """Begin the work."""
        self._job = self._threads.begin(self)

    def is_alive(self) -> bool:
        """Return whether the work has begun and not ended."""
        return self._job is not None and not self._job.ended.is_set()

    def wake(self) -> None:
        """End the present pause, or skip the next one."""
        self._wake.set()
        if self._job is not None:
            self._threads.hurry(self._job)

    def stop(self) -> None:
        """Ask the work to end."""
        self._stopping.set()
        self.wake()

    def join(self, timeout: float) -> None:
        """Wait until the work has ended, for some seconds at most."""
        if self._job is not None:
            self._job.ended.wait(timeout)

    def is_due(self, pause: Rest) -> bool:
        """Return whether to end this pause before its time."""
        return self._stopping.is_set() or (pause.may_hurry and self._wake.is_set())

    def resume(self, pause: Rest) -> None:
        """Forget the wake that has ended this pause: a later one counts for the next."""
        if pause.may_hurry:
            self._wake.clear()

    def run_step(self, steps: Iterator[Rest]) -> Rest | None:
        """Go on with the work until its next pause; return that, or None if the work has ended."""
        return self._log_context.run(lambda: next(steps, None))


class _Job:
    """The work of one service, and where it stands; changed under the lock of its threads."""

    def __init__(self, service: SharedService) -> None:
        self.service = service
        self.steps = service.work()
        self.pause: Rest | None = None
        """The present pause; None while a step is due or under way."""
        self.due_at = 0.0
        """When the present pause ends, or the step was due (monotonic seconds)."""
        self.ended = threading.Event()


class SharedThreads:
    """The threads of many services; as many as have something to do at the same time."""

    def __init__(self, name: str) -> None:
        """Prepare; the first service starts the threads, whose names begin with this one."""
        self._name = name
        self._lock = threading.Lock()
        self._due_earlier = threading.Condition(self._lock)
        """Notified when the clock has to look anew."""
        self._step_is_due = threading.Condition(self._lock)
        self._pauses: list[tuple[float, int, _Job]] = []
        """A heap of all pauses with an end; also former ones, which are skipped."""
        self._due: deque[_Job] = deque()
        self._idle = 0
        self._clock: threading.Thread | None = None
        self._entries = 0

    def begin(self, service: SharedService) -> _Job:
        """Start a service's work."""
        job = _Job(service)
        with self._lock:
            if self._clock is None:
                self._clock = threading.Thread(target=self._keep_time, name=f"{self._name} clock", daemon=True)
                self._clock.start()
            self._make_due(job)
        return job

    def hurry(self, job: _Job) -> None:
        """End a job's present pause if its service is to go on."""
        with self._lock:
            if job.pause is not None and job.service.is_due(job.pause):
                self._make_due(job)

    def _make_due(self, job: _Job) -> None:
        """Have a thread take the job's next step; the lock is held."""
        if job.pause is not None:
            job.service.resume(job.pause)
        job.pause, job.due_at = None, time.monotonic()
        self._due.append(job)
        (self._step_is_due if self._idle else self._due_earlier).notify()

    def _begin_pause(self, job: _Job, pause: Rest) -> None:
        """Begin a pause, which may be over at once; the lock is held."""
        job.pause = pause
        if pause.seconds == 0 or job.service.is_due(pause):
            self._make_due(job)
        elif pause.seconds is not None:
            job.due_at = time.monotonic() + pause.seconds
            self._entries += 1
            heapq.heappush(self._pauses, (job.due_at, self._entries, job))
            if self._pauses[0][2] is job:
                self._due_earlier.notify()

    def _keep_time(self) -> None:
        """End pauses in time, and add a thread where a step has waited for one."""
        with self._lock:
            while True:
                now = time.monotonic()
                while self._pauses and self._pauses[0][0] <= now:
                    due_at, _, job = heapq.heappop(self._pauses)
                    if job.pause is not None and job.due_at == due_at:
                        self._make_due(job)
                wait_until = self._pauses[0][0] if self._pauses else float("inf")
                if self._due and not self._idle:
                    patient_until = self._due[0].due_at + _PATIENCE_SECONDS
                    if patient_until > now:
                        wait_until = min(wait_until, patient_until)
                    elif not self._add_thread():
                        wait_until = min(wait_until, now + _PATIENCE_SECONDS)
                self._due_earlier.wait(min(wait_until - now, threading.TIMEOUT_MAX))

    def _add_thread(self) -> bool:
        """Add a thread, which counts as idle at once; return False if the system allows no more. The lock is held."""
        try:
            threading.Thread(target=self._take_steps, name=self._name, daemon=True).start()
        except RuntimeError:
            return False  # those that there are take the steps later
        self._idle += 1
        return True

    def _take_steps(self) -> None:
        """Take steps that are due; end if enough other threads are idle. This thread counts as idle at first."""
        while (job := self._next()) is not None:
            try:
                pause = job.service.run_step(job.steps)
            except Exception:
                pause = None
                with suppress(Exception):  # what is broken may be the log
                    log.exception("service-ended", service=job.service.name)
            with self._lock:
                self._idle += 1
                if pause is None:
                    job.ended.set()
                else:
                    self._begin_pause(job, pause)

    def _next(self) -> _Job | None:
        """Return a job with a step that is due; None if this thread is not needed. It is not idle after that."""
        with self._lock:
            while not self._due and self._idle <= _MAX_IDLE:
                self._step_is_due.wait()
            self._idle -= 1
            if not self._due:
                return None
            job = self._due.popleft()
            if self._due and not self._idle:
                self._due_earlier.notify()
            return job
