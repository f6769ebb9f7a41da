"""One run of the agent's worker process: its group thread is a fiber, and it can be killed at chosen steps.

The group thread blocks while it waits for brokers or for the next turn. Here such a wait returns control to the
timeline, which resumes the thread at the right time: one thread at a time, always in the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from samerack.agent.supervisor.protocol import MemberIdentity
from tests.simulator.network import Host, Network
from tests.simulator.timeline import Timeline


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
        self.check_killed()
        self._back.release()
        self._go.acquire()
        self.check_killed()

    def check_killed(self) -> None:
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


# the process

if TYPE_CHECKING:
    from tests.simulator.supervised import SupervisedAgent

_NEVER = 1 << 62
_LONGEST_REPEATED_MS = 2500


class Process:
    """A simulated process that can wait; `run` starts its work."""

    current: Process | None = None  # the process whose thread runs at the moment

    def __init__(self, agent: SupervisedAgent, *, timeline: Timeline, network: Network) -> None:
        self._agent = agent
        self.network = network
        self.host = Host(timeline, around=self._switch)
        self.timeline = timeline
        self.loops: list[Any] = []  # its event loops, one for each client
        self._busy_until = 0
        self._spent = 0
        self._fiber: Fiber | None = None
        self._until: Callable[[], bool] = lambda: True
        self._deadline = 0
        self._poked = False
        self._then: Callable[[], None] = lambda: None
        self.plan_ms = self.metadata_ms = 0  # how long a plan takes, and the metadata request that a plan waits for
        self.planned = -1  # the last generation that it has planned for
        self.presences: Callable[[], frozenset[MemberIdentity]] = frozenset

    def played(self) -> int:
        """The time in milliseconds without leaps, in which nothing changed."""
        return self.timeline.now - self.timeline.leapt

    def played_seconds(self) -> float:
        """`played` in seconds, plus the time that the running code has spent."""
        return (self.played() + self._spent) / 1000

    def seconds(self) -> float:
        """The time in seconds, plus the time that the running code has spent."""
        return (self.timeline.now + self._spent) / 1000

    def spend(self, milliseconds: int) -> None:
        """Block the network thread for this long: until then it sends and reads nothing."""
        self._spent += milliseconds

    def busy_ms(self) -> int:
        """How long the network thread is still busy."""
        return max(0, self._busy_until - self.timeline.now) + self._spent

    def run(self, body: Callable[[], None], then: Callable[[], None]) -> None:
        """Start `body`, and call `then` when it has ended."""
        self._fiber = Fiber(body)
        self._then = then
        self.host.later(0, self._resume)

    @property
    def ended(self) -> bool:
        """Whether its work is done."""
        return self._fiber is not None and self._fiber.ended

    def kill(self) -> None:
        """Kill the process at any point, as by SIGKILL."""
        self.host.kill()
        if self._fiber is not None and not self._fiber.is_current():
            self._switch(self._end)

    def _end(self) -> None:
        assert self._fiber is not None
        self._fiber.kill()
        for loop in self.loops:
            loop.close()

    # from its own thread

    def check_killed(self) -> None:
        """Stop here if the process was killed."""
        assert self._fiber is not None
        self._fiber.check_killed()

    def block(self, until: Callable[[], bool]) -> None:
        """Wait without limit until a condition holds; code that changes it calls `stepped`."""
        self.check_killed()
        if not until():
            assert self._fiber is not None
            self._until, self._deadline = until, _NEVER
            self._fiber.park()

    def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        self.wait(lambda: False, round(seconds * 1000))

    def wait(self, until: Callable[[], bool], milliseconds: int) -> bool:
        """Wait until a condition holds, up to a limit; return whether it holds."""
        fiber = self._fiber
        assert fiber is not None
        fiber.check_killed()
        if until():
            return True
        self._until, self._deadline = until, self.timeline.now + milliseconds
        self._poked = False
        timer = self.host.later(milliseconds, self._resume, repeats=milliseconds <= _LONGEST_REPEATED_MS)
        fiber.park()
        timer.cancel()
        return until()

    # from the timeline

    def poke(self) -> None:
        """Check the condition of the current wait."""
        if not self._poked:
            self._poked = True
            self.host.later(0, self._resume, repeats=True)

    def changes(self, step: str) -> None:
        """A membership reaches a step; the process may be killed there."""
        self._agent.changed(self, step)

    def stepped(self) -> None:
        """The network thread has run."""
        if self._spent:
            self._busy_until = max(self._busy_until, self.timeline.now) + self._spent
            self._spent = 0
        if self.host.alive:
            self._agent.changed(self, "")
            if self._fiber is not None and not self._fiber.ended and self._until():
                self.poke()

    def sends(self, name: str, request: Any) -> None:
        """The process sends a request about a group, of this kind."""
        self._agent.sent(self, name, request)

    def answered(self, name: str, response: Any) -> None:
        """A broker answers."""
        code = getattr(response, "error_code", 0)
        if name == "find":
            code = response.coordinators[0].error_code
        elif name in ("describe", "commits"):
            code = response.groups[0].error_code
        elif name == "leave":
            code = code or next((one.error_code for one in response.members if one.error_code), 0)
        if code:
            self._agent.refused(self, name, code)

    def triggers(self, reason: str) -> None:
        """The process is about to trigger a rebalance."""
        self._agent.triggered(self, reason)

    def _resume(self) -> None:
        self._poked = False
        fiber = self._fiber
        if fiber is None or fiber.ended:
            return
        if self._deadline <= self.timeline.now or self._until():
            fiber.resume()
            if self.ended:
                self._then()

    def _switch(self, way: Callable[[], None]) -> None:
        before, Process.current = Process.current, self
        try:
            way()
        finally:
            Process.current = before


class Signal:
    """Replaces `threading.Event` in one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._set = False

    def is_set(self) -> bool:
        """Whether the signal is set."""
        return self._set

    def set(self) -> None:
        """Set the signal and wake the waiting thread."""
        self._set = True
        self._process.poke()

    def clear(self) -> None:
        """Clear the signal."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the signal is set; return whether it is."""
        return self._process.wait(self.is_set, round((3600.0 if timeout is None else timeout) * 1000))
