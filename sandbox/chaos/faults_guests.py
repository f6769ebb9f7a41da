"""Faults in which all consumers of a group go and come back: what an agent must not be noticed by.

Where the agent is left in peace, the group is as without one two seconds after its last consumer has left: empty, with
all offsets, open to tools and to any protocol. Where the agent is hit meanwhile, the group is so once the agent, its
successor or the end of its session allows. A stop counts from when the consumers are started again.
"""

from __future__ import annotations

import time
from concurrent.futures import wait
from typing import ClassVar, Final, Literal

from sandbox.chaos import guests
from sandbox.chaos.agents import Agent
from sandbox.chaos.fault import Drawn, Fault, hold
from sandbox.chaos.group import AGENT, Group, now_ns
from sandbox.chaos.setup import Seat
from sandbox.chaos.world import IDLE, KAFKAJS, World
from sandbox.errors import SandboxError

Victim = Literal["", "worker", "pause", "agent", "ended"]
_SESSION_SECONDS: Final = 9.0
"""`leading.session_timeout_seconds`: as long as brokers keep an agent that was killed with its supervisor."""
_EMPTY_SECONDS: Final[dict[Victim, float]] = {
    "": guests.TOOL_SECONDS,
    "worker": 5.0,  # its supervisor replaces it within two seconds
    "pause": 6.0,  # a second later
    "ended": 6.0,  # SIGTERM may take five
    "agent": _SESSION_SECONDS + 2.0,
}
"""So long after its last consumer has left a group may take to be empty, by what happened to the agent meanwhile."""
_MOMENTS: Final = (0.0, 0.2, 0.5)
"""Seconds between the consumers' SIGTERM and what happens to the agent: before, while and after it sees them go."""
_START_SECONDS: Final = 30.0


class _Emptied(Fault):
    """All consumers go; the group is held to what it is without agents; they come back."""

    like = "group emptied"
    kill: ClassVar[bool] = False
    victim: ClassVar[Victim] = ""

    def __init__(self, drawn: Drawn, world: World) -> None:
        super().__init__(drawn, world)
        self._gone: dict[Group, list[Seat]] = {}

    def emptied(self) -> list[Group]:
        """The groups whose consumers go."""
        return [self.group]

    def inject(self) -> None:
        """Let them go, hit the agent if it is to be hit, and look."""
        agent = self.agent() if self.victim else None
        groups = self.emptied()
        self._gone = {group: list(group.present) for group in groups}
        leaving = [future for group in groups for future in group.leave(kill=self.kill)]
        if agent is not None:
            hold(self.pick(_MOMENTS))
            self.hit(agent)
        wait(leaving)
        for group in groups:
            guests.wait_without_consumers(group, AGENT)  # one that was killed is missed after its session
        self.check(groups, time.monotonic())

    def check(self, groups: list[Group], left: float) -> None:
        """Hold the groups to what they are without agents.

        Args:
            groups: whose consumers have gone.
            left: when the last consumer had, on the monotonic clock.
        """
        if not self.victim:
            guests.hold_until(left + guests.TOOL_SECONDS)
        for group in groups:
            self.violations += guests.wait_empty(group, left, seconds=_EMPTY_SECONDS[self.victim])
            if self.victim:
                self.target += f", empty after {time.monotonic() - left:.1f} s"
            group.note_offsets()
            self.violations += guests.reset_offsets(group)

    def hit(self, agent: Agent) -> None:
        """Kill, stop or end it."""
        if self.victim == "worker":
            agent.kill_worker()
        elif self.victim == "pause":
            agent.pause_worker()
        elif self.victim == "ended":
            agent.process.stop()
        else:
            agent.process.kill()

    def heal(self) -> None:
        """Let the consumers come back."""
        for group, seats in self._gone.items():
            self.counts_from[group.name] = now_ns()
            for seat in seats:
                if seat not in group.present:
                    group.start(seat)

    def explains(self) -> frozenset[str]:
        """The groups that were emptied."""
        return frozenset(group.name for group in self._gone)


class GroupEmptied(_Emptied):
    """Scaled to zero and back; with it a group whose commits are older than brokers keep those of nobody's topics."""

    kind = "group-emptied"
    title = "all members end in good order, and come back"

    def emptied(self) -> list[Group]:
        """The idle one as well, and one that an agent enters only when it has been empty."""
        return [self.group, self.world.groups[IDLE], self.world.groups[KAFKAJS]]

    def check(self, groups: list[Group], left: float) -> None:
        """And delete the idle one, as tools do."""
        super().check(groups, left)
        self.violations += guests.delete(self.world.groups[IDLE])


class GroupKilled(_Emptied):
    """Missed after their sessions."""

    kind = "group-killed"
    title = "all members killed, and started again"
    kill = True


class ForeignStarts(_Emptied):
    """An application with a protocol of its own takes the group over as soon as it is empty, and gives it back."""

    kind = "foreign-starts"
    title = "all members end, and one of a foreign protocol starts at once"

    def check(self, groups: list[Group], left: float) -> None:
        """It gets all partitions, and ends again."""
        group = self.group
        seat = group.start_foreign()
        member = group.present[seat]
        try:
            member.wait(lambda: len(member.owned) == len(group.setup.placed), "it owns all", timeout=_START_SECONDS)
        except SandboxError as error:
            self.violations.append(f"{seat.name} does not start in {group.name}: {error}; {guests.described(group)}")
        self.target = f"{group.name}, {seat.name} after {time.monotonic() - left:.1f} s"
        group.end(seat)
        super().check(groups, time.monotonic())


def _kind(victim: Victim, what: str) -> type[_Emptied]:
    fields = {
        "victim": victim,
        "kind": f"emptied-{victim}",
        "title": f"all members end, and {what}",
        "__doc__": f"All members end, and {what} meanwhile.",
    }
    return type(f"_emptied_{victim}", (_Emptied,), fields)


KINDS: Final[tuple[type[Fault], ...]] = (
    GroupEmptied,
    GroupKilled,
    ForeignStarts,
    _kind("worker", "the worker is killed"),
    _kind("pause", "the worker is stopped"),
    _kind("agent", "supervisor and worker are killed"),
    _kind("ended", "the agent ends with SIGTERM"),
)
