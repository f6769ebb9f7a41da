"""kafka-python's event loop in virtual time: its own tasks and futures, but timers are the timeline's events.

There is no thread and no socket. The work of a process's network thread runs on the timeline; the caller of `run` waits
on the process's fiber.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from kafka.future import Future
from kafka.net.selector import KernelEvent, NetworkSelector, Task, TaskState

from tests.simulator.process import Process
from tests.simulator.timeline import Event


class VirtualLoop(NetworkSelector):  # type: ignore[misc]  # the library is untyped
    """The event loop of one client of the current process."""

    def __init__(self, **_: Any) -> None:
        process = Process.current
        assert process is not None
        self.process = process
        process.loops.append(self)
        self._closed = self._due = False
        self._exception = None
        self._ready: deque[Any] = deque()
        self._pending_tasks: set[Any] = set()
        self._current: Any = None
        self._timers: dict[Any, Event] = {}

    # the interface for the library

    def start(self) -> None:
        """Do nothing: there is no thread."""

    def wakeup(self) -> None:
        """Do nothing: there is no sleeping thread."""

    def run(self, coro: Any, *args: Any) -> Any:
        """Run a coroutine on the loop while the calling fiber waits; return its result."""
        if self._closed:
            raise RuntimeError("NetworkSelector closed!")
        self.process.heed()
        future = self.call_soon_with_future(coro, *args)
        self.process.block(lambda: bool(future.is_done))
        if future.exception is not None:
            raise future.exception
        return future.value

    def call_at(self, when: float, task: Any) -> Any:
        """Set a timer, by the played time."""
        if self._closed:
            raise RuntimeError("NetworkSelector closed!")
        if not isinstance(task, Task):
            task = Task(task)
        task.scheduled_at, task.state = when, TaskState.SCHEDULED
        self._pending_tasks.add(task)
        # the clock has whole milliseconds: round up
        delay = max(1, math.ceil(round(when * 1000 - self.process.played(), 3)))

        def due() -> None:
            # in a suspended process the timer may have been cancelled while it was overdue
            if self._timers.pop(task, None) is not None and not self._closed:
                task.scheduled_at = None
                self._add_ready_task(task)
                self._drain()

        self._timers[task] = self.process.host.later(delay, due, repeats=True)
        return task

    def call_later(self, delay: float, task: Any) -> Any:
        """Set a timer after a delay."""
        return self.call_at(self.process.played() / 1000 + delay, task)

    def close(self) -> None:
        """Cancel all timers and tasks."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ready.clear()
        for task in (*self._pending_tasks,):
            if task is not self._current and not task.is_done:
                task.close()
        self._pending_tasks.clear()

    # inside

    def _add_ready_task(self, task: Any) -> None:
        if self._closed:
            return
        self._ready.append(task)
        task.state = TaskState.READY
        if not self._due:
            self._due = True
            self.process.host.later(self.process.busy_ms(), self._drain, repeats=True)

    def _unschedule(self, task: Any) -> None:
        if (timer := self._timers.pop(task, None)) is not None:
            timer.cancel()
        task.scheduled_at, task.state = None, TaskState.UNSCHEDULED

    def deliver(self, action: Callable[[], None]) -> None:
        """Run an action from outside, and then all ready tasks."""
        if not self._closed:
            action()
            self._drain()

    def _drain(self) -> None:
        self._due = False
        if self._ready and (wait := self.process.busy_ms()):
            self._due = True
            self.process.host.later(wait, self._drain, repeats=True)
            return
        while self._ready and not self._closed and self.process.host.alive:
            task = self._current = self._ready.popleft()
            if task.state not in (TaskState.DONE, TaskState.CANCELLED):
                self._step(task)
            self._current = None
        self.process.stepped()

    def _step(self, task: Any) -> None:
        task.state = TaskState.RUNNING
        try:
            event = task()
        except StopIteration:
            self._task_done(task)
            return
        if task.state is TaskState.CANCELLED:
            self._pending_tasks.discard(task)
            task.close()
        elif isinstance(event, KernelEvent):
            task.state = TaskState.UNSCHEDULED
            getattr(self, event.method)(*event.args)
        else:
            assert isinstance(event, Future)
            task.state = TaskState.WAIT_FUTURE
            event.add_both(lambda _: self.call_soon(task))
