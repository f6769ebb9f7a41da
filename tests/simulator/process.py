"""One life of the agent's working process: its group thread as a fiber, and what kills it at chosen steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from agent.supervisor.line import MemberIdentity
from tests.simulator.fibers import Fiber
from tests.simulator.network import Host, Network
from tests.simulator.timeline import Timeline

_NEVER = 1 << 62
_LONGEST_REPEATED_MS = 2500


class Process:
    """A process that can wait; `run` gives it its work."""

    current: Process | None = None
    """Whose thread runs at the moment."""

    def __init__(
        self,
        name: str,
        *,
        timeline: Timeline,
        network: Network,
        changed: Callable[[Process, str], None],
        triggered: Callable[[Process, str], None],
        refused: Callable[[Process, str, int], None],
        sent: Callable[[Process, str, Any], None],
    ) -> None:
        """A process that does nothing yet.

        Args:
            name: Its client id.
            timeline: Time.
            network: The way to the coordinator.
            changed: Told of every step of its memberships.
            triggered: Told of every rebalance that it is about to ask for.
            refused: Told of every answer with an error: to which kind of request, and which.
            sent: Told of every request about a group: its kind, and the request.
        """
        self.name = name
        self.network = network
        self.host = Host(timeline, around=self._switch)
        self.timeline = timeline
        self.loops: list[Any] = []
        """Its event loops, one for each client."""
        self._busy_until = 0
        self._spent = 0
        self._changed, self._triggered, self._refused, self.sends = changed, triggered, refused, partial(sent, self)
        self._fiber: Fiber | None = None
        self._until: Callable[[], bool] = lambda: True
        self._deadline = 0
        self._poked = False
        self._then: Callable[[], None] = lambda: None
        self.plan_ms = self.look_ms = 0
        """How long a plan takes, and a look at topics that a plan waits for."""
        self.planned = -1
        """The last generation that it has planned for."""
        self.presences: Callable[[], frozenset[MemberIdentity]] = frozenset

    def now(self) -> int:
        """Milliseconds."""
        return self.timeline.now

    def played(self) -> int:
        """Milliseconds without those that were leapt over, in which all went on as ever."""
        return self.timeline.now - self.timeline.leapt

    def played_seconds(self) -> float:
        """The same in seconds, with what code that still runs has spent."""
        return (self.played() + self._spent) / 1000

    def seconds(self) -> float:
        """Seconds, with what code that still runs has spent."""
        return (self.timeline.now + self._spent) / 1000

    def spend(self, milliseconds: int) -> None:
        """Code on the network thread takes so long: until then nothing is sent, and nothing is read."""
        self._spent += milliseconds

    def busy_ms(self) -> int:
        """How long the network thread is still at work."""
        return max(0, self._busy_until - self.timeline.now) + self._spent

    def run(self, body: Callable[[], None], then: Callable[[], None]) -> None:
        """Begin; and what to do when that has ended."""
        self._fiber = Fiber(body)
        self._then = then
        self.host.later(0, self._resume)

    @property
    def ended(self) -> bool:
        """Whether its work is done."""
        return self._fiber is not None and self._fiber.ended

    def kill(self) -> None:
        """As SIGKILL, wherever it is."""
        self.host.kill()
        if self._fiber is not None and not self._fiber.is_current():
            self._switch(self._end)

    def _end(self) -> None:
        assert self._fiber is not None
        self._fiber.kill()
        for loop in self.loops:
            loop.close()

    # from its own thread

    def heed(self) -> None:
        """Go no further once killed.

        Raises:
            Killed: It is.
        """
        assert self._fiber is not None
        self._fiber.heed()

    def block(self, until: Callable[[], bool]) -> None:
        """Wait until something is so, however long that takes; whoever makes it so says `stepped`.

        Raises:
            Killed: The process was killed meanwhile.
        """
        self.heed()
        if not until():
            assert self._fiber is not None
            self._until, self._deadline = until, _NEVER
            self._fiber.park()

    def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            Killed: The process was killed meanwhile.
        """
        self.wait(lambda: False, round(seconds * 1000))

    def wait(self, until: Callable[[], bool], milliseconds: int) -> bool:
        """Wait until something is so, for so long at most; whether it is.

        Raises:
            Killed: The process was killed meanwhile.
        """
        fiber = self._fiber
        assert fiber is not None
        fiber.heed()
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
        """What is waited for may be so now."""
        if not self._poked:
            self._poked = True
            self.host.later(0, self._resume, repeats=True)

    def changes(self, step: str) -> None:
        """A step of a membership; it may be the last one."""
        self._changed(self, step)

    def stepped(self) -> None:
        """The network thread has done something."""
        if self._spent:
            self._busy_until = max(self._busy_until, self.timeline.now) + self._spent
            self._spent = 0
        if self.host.alive:
            self._changed(self, "")
            if self._fiber is not None and not self._fiber.ended and self._until():
                self.poke()

    def answered(self, name: str, response: Any) -> None:
        """A broker answers."""
        code = getattr(response, "error_code", 0)
        if name == "find":
            code = response.coordinators[0].error_code
        elif name == "describe":
            code = response.groups[0].error_code
        elif name == "leave":
            code = code or next((one.error_code for one in response.members if one.error_code), 0)
        if code:
            self._refused(self, name, code)

    def triggers(self, reason: str) -> None:
        """A rebalance is about to be asked for."""
        self._triggered(self, reason)

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
    """Stands for `threading.Event` on one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._set = False

    def is_set(self) -> bool:
        """Whether it is."""
        return self._set

    def set(self) -> None:
        """Wake whoever waits."""
        self._set = True
        self._process.poke()

    def clear(self) -> None:
        """Not any more."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it."""
        return self._process.wait(self.is_set, round((3600.0 if timeout is None else timeout) * 1000))
