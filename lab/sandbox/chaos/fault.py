"""A fault while it is injected: what it affects, what undoes it, and which rebalances it explains."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, TypeVar

from lab.sandbox.chaos.agents import Agent, Agents
from lab.sandbox.chaos.group import Group
from lab.sandbox.chaos.setup import MemberSpec
from lab.sandbox.chaos.world import World
from lab.sandbox.errors import SandboxError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One entry of a schedule: all random choices of a fault."""

    number: int  # from 1
    kind: str
    group: str
    pick: int  # which member, broker or partition, modulo their number


@dataclass(eq=False)
class Fault:
    """One fault; the run injects it, heals it, and then waits until the world has settled."""

    drawn: Drawn
    world: World
    target: str = ""  # what it actually affected, in words
    explains: frozenset[str] = frozenset()  # the groups that it may rebalance
    violations: list[str] = field(default_factory=list)  # how groups without consumers were not as without agents
    counts_from: dict[str, int] = field(default_factory=dict)
    """Group to the time when its consumers restarted: no member could read before, so a stop counts from then."""
    healing: ExitStack = field(default_factory=ExitStack)  # what undoes it, also if it was injected half way

    @property
    def group(self) -> Group:
        """The group that it affects."""
        return self.world.groups[self.drawn.group]

    def pick(self, among: Sequence[T]) -> T:
        """Return the element that the schedule has drawn."""
        return among[self.drawn.pick % len(among)]

    def any_member(self) -> MemberSpec:
        """Return the member that the schedule has drawn."""
        return self.pick([spec for spec in self.group.specs if spec in self.group.present])

    def agent(self) -> Agent | None:
        """Return the agent that is in the group now, or stays out as it is full; None where there is none."""
        if self.world.agents is None:
            return None
        found = self.world.agents.active(self.drawn.group)
        self.target = f"agent {found.name}" if found else "no agent"
        return found

    @property
    def agents(self) -> Agents:
        """Both agents."""
        if self.world.agents is None:
            raise SandboxError("there are no agents")
        return self.world.agents

    def hand_over(self, agent: Agent) -> None:
        """Wait until the other agent has taken over."""
        self.agents.wait_roles(next(one for one in self.agents.all if one is not agent))


Inject = Callable[[Fault], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of fault, and the function that injects it and returns when that is done."""

    title: str
    inject: Inject
    like: str = ""  # a name shared by kinds that are the same fault without agents
    on_agents: bool = False  # whether it affects agents only: without agents nothing is injected


HITS: Final[Mapping[str, Callable[[Agent], object]]] = {
    "worker": lambda agent: agent.signal_worker(signal.SIGKILL),
    "pause": lambda agent: agent.signal_worker(signal.SIGSTOP),
    "agent": lambda agent: agent.process.kill(),
    "ended": lambda agent: agent.process.stop(),
}
"""What may happen to an agent: its worker killed or stopped, killed with its supervisor, or ended by SIGTERM."""
