"""One life of the agent's working process: its group thread as a fiber, and what kills it at chosen steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agent.supervisor.line import Presence
from tests.simulator.fibers import Fiber
from tests.simulator.network import Host, Network
from tests.simulator.timeline import Timeline

Answer = TypeVar("Answer")
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
    ) -> None:
        """A process that does nothing yet.

        Args:
            name: Its client id.
            timeline: Time.
            network: The way to the coordinator.
            changed: Told of every step of its memberships.
            triggered: Told of every rebalance that it is about to ask for.
        """
        self.name = name
        self.network = network
        self.host = Host(timeline, around=self._switch)
        self._timeline = timeline
        self._changed, self._triggered = changed, triggered
        self._fiber: Fiber | None = None
        self._until: Callable[[], bool] = lambda: True
        self._deadline = 0
        self._poked = False
        self._then: Callable[[], None] = lambda: None
        self.membership: object = None
        self.planned = -1
        """The last generation that it has planned for."""
        self.presences: Callable[[], frozenset[Presence]] = frozenset

    def now(self) -> int:
        """Milliseconds."""
        return self._timeline.now

    def played(self) -> int:
        """Milliseconds without those that were leapt over, in which all went on as ever."""
        return self._timeline.now - self._timeline.leapt

    def seconds(self) -> float:
        """Seconds."""
        return self._timeline.seconds()

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
            self._switch(self._fiber.kill)

    # from its own thread

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
        self._until, self._deadline = until, self._timeline.now + milliseconds
        self._poked = False
        timer = self.host.later(milliseconds, self._resume, repeats=milliseconds <= _LONGEST_REPEATED_MS)
        fiber.park()
        timer.cancel()
        return until()

    def heard(self, answers: list[Answer]) -> Callable[[Answer], None]:
        """Takes an answer, and wakes whoever waits for it."""

        def take(answer: Answer) -> None:
            answers.append(answer)
            self.poke()

        return take

    # from the timeline

    def poke(self) -> None:
        """What is waited for may be so now."""
        if not self._poked:
            self._poked = True
            self.host.later(0, self._resume, repeats=True)

    def changes(self, step: str) -> None:
        """A step of a membership; it may be the last one."""
        self._changed(self, step)
        if not self.host.alive and self._fiber is not None and self._fiber.is_current():
            self._fiber.give_up()

    def triggers(self, reason: str) -> None:
        """A rebalance is about to be asked for."""
        self._triggered(self, reason)

    def _resume(self) -> None:
        self._poked = False
        fiber = self._fiber
        if fiber is None or fiber.ended:
            return
        if self._deadline <= self._timeline.now or self._until():
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
