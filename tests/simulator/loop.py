"""kafka-python's event loop and connections in virtual time: its own tasks, futures and messages, without sockets.

Timers are the timeline's events. The work of a process's network thread runs on the timeline; the caller of `run` waits
on the process's fiber. Requests are encoded and answers decoded by the library, over the simulated network.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.selector import KernelEvent, NetworkSelector, Task, TaskState

from samerack.cluster.connections import Connections, Node
from tests.simulator.broker import BrokerEnd
from tests.simulator.network import LATENCY_MS
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
        self.process.check_killed()
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


# connections: kafka-python's own, over the simulated network as transport


class VirtualTransport:
    """The client side of one connection, in place of kafka-python's socket transport."""

    host = "simulated"

    def __init__(self, loop: VirtualLoop, broker: int) -> None:
        self._loop = loop
        self._protocol: Any = None
        self._closed = False
        process = loop.process
        self._host = process.host
        self._end = BrokerEnd(process, broker, answer=self._answer, hang_up=self._hang_up)

    def set_protocol(self, protocol: Any) -> None:
        """Set the receiver of incoming data."""
        self._protocol = protocol

    def get_protocol(self) -> Any:
        """The receiver of incoming data."""
        return self._protocol

    def getPeer(self) -> tuple[str, int]:  # noqa: N802 - the library's name
        """The broker's address."""
        return self.host, 9092

    def host_port(self) -> str:
        """The broker's address as text."""
        return f"{self.host}:9092"

    def resume_reading(self) -> None:
        """Do nothing: it always reads."""

    def write(self, data: Any) -> None:
        """Send data; it arrives at the broker after a latency."""
        process = self._loop.process
        content = bytes(data)
        self._end.sends(content)
        if process.host.alive:
            process.timeline.after(process.busy_ms() + LATENCY_MS, partial(self._end.receive, content), repeats=True)

    def close(self) -> None:
        """Close the connection."""
        self.abort(None)

    def abort(self, error: BaseException | None = None) -> None:
        """Close the connection, also after the broker has closed it."""
        if not self._closed:
            self._closed = True
            self._end.close()
            protocol, self._protocol = self._protocol, None
            if protocol is not None:
                protocol.connection_lost(error)

    def _answer(self, content: bytes) -> None:
        def arrives() -> None:
            if self._closed:
                return
            self._end.arrives(content)
            if self._host.alive:
                self._loop.deliver(partial(self._protocol.data_received, content))

        self._host.later(LATENCY_MS, arrives, repeats=True)

    def _hang_up(self) -> None:
        def lost() -> None:
            self._loop.deliver(partial(self.abort, kafka_errors.KafkaConnectionError("socket disconnected")))

        self._host.later(LATENCY_MS, lost, repeats=True)


class SimulatedConnections(Connections):
    """The connections of one simulated client."""

    def run_aside(self, function: Callable[[], Any]) -> Any:
        """Run a function at once: what it computes keeps the network thread busy, and threads have no order."""
        done = Future()
        try:
            return done.success(function())
        except Exception as error:  # noqa: BLE001 - whoever awaits the future handles it
            return done.failure(error)

    async def _transport(self, node: Node, until: float) -> Any:  # noqa: ARG002
        return VirtualTransport(self._net, 0 if node.node_id in self._bootstrap else node.port - 9092)
