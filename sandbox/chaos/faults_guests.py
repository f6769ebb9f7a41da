"""Faults in which all consumers of a group leave and return: an agent must not affect the empty group.

With a healthy agent, two seconds after its last consumer has left the group must be as without an agent: empty, with
all offsets, open to tools and to any protocol. If the agent is hit meanwhile, the group may take until the agent, its
successor or the end of its session empties it. A stop counts from the restart of the consumers.
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
"""`leading.session_timeout_seconds`: brokers keep an agent that was killed with its supervisor for this time."""
_EMPTY_SECONDS: Final[dict[Victim, float]] = {
    "": guests.TOOL_SECONDS,
    "worker": 5.0,  # its supervisor replaces it within two seconds
    "pause": 6.0,  # a second later
    "ended": 6.0,  # SIGTERM may take five
    "agent": _SESSION_SECONDS + 2.0,
}
"""Seconds in which a group must be empty after its last consumer has left, by what happened to the agent meanwhile."""
_MOMENTS: Final = (0.0, 0.2, 0.5)
"""Seconds between the consumers' SIGTERM and the hit on the agent: before, while and after it sees them leave."""
_START_SECONDS: Final = 30.0


class _Emptied(Fault):
    """All consumers leave; the group is compared with one without agents; the consumers return."""

    like = "group emptied"
    kill: ClassVar[bool] = False
    victim: ClassVar[Victim] = ""

    def __init__(self, drawn: Drawn, world: World) -> None:
        super().__init__(drawn, world)
        self._gone: dict[Group, list[Seat]] = {}

    def emptied(self) -> list[Group]:
        """Returns the groups whose consumers leave."""
        return [self.group]

    def inject(self) -> None:
        """End the consumers, hit the agent if this kind does so, and check the groups."""
        agent = self.agent() if self.victim else None
        groups = self.emptied()
        self._gone = {group: list(group.present) for group in groups}
        leaving = [future for group in groups for future in group.leave(kill=self.kill)]
        if agent is not None:
            hold(self.pick(_MOMENTS))
            self.hit(agent)
        wait(leaving)
        for group in groups:
            guests.wait_without_consumers(group, AGENT)  # a killed consumer is removed after its session
        self.check(groups, time.monotonic())

    def check(self, groups: list[Group], left: float) -> None:
        """Check that the groups are as without agents.

        Args:
            groups: groups whose consumers have left.
            left: when the last consumer left, on the monotonic clock.
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
        """Kill, stop or end the agent."""
        if self.victim == "worker":
            agent.kill_worker()
        elif self.victim == "pause":
            agent.pause_worker()
        elif self.victim == "ended":
            agent.process.stop()
        else:
            agent.process.kill()

    def heal(self) -> None:
        """Start the consumers again."""
        for group, seats in self._gone.items():
            self.counts_from[group.name] = now_ns()
            for seat in seats:
                if seat not in group.present:
                    group.start(seat)

    def explains(self) -> frozenset[str]:
        """Returns the groups that were emptied."""
        return frozenset(group.name for group in self._gone)


class GroupEmptied(_Emptied):
    """Scaled to zero and back, with the idle group, whose commits are older than brokers keep without subscribers."""

    kind = "group-emptied"
    title = "all members end in good order, and come back"

    def emptied(self) -> list[Group]:
        """Returns also the idle group, and one that an agent enters only when it has been empty."""
        return [self.group, self.world.groups[IDLE], self.world.groups[KAFKAJS]]

    def check(self, groups: list[Group], left: float) -> None:
        """Check the groups, and delete the idle one, as tools do."""
        super().check(groups, left)
        self.violations += guests.delete(self.world.groups[IDLE])


class GroupKilled(_Emptied):
    """All members are killed; the group removes them after their sessions."""

    kind = "group-killed"
    title = "all members killed, and started again"
    kill = True


class ForeignStarts(_Emptied):
    """An application with another protocol joins the group as soon as it is empty, and leaves again."""

    kind = "foreign-starts"
    title = "all members end, and one of a foreign protocol starts at once"

    def check(self, groups: list[Group], left: float) -> None:
        """Start it, wait until it owns all partitions, and end it; then check the groups."""
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
