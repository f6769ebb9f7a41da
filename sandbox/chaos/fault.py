"""The base class of all faults: how a fault is drawn, injected and healed, and which rebalances it explains."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from sandbox.chaos.agents import Agent
from sandbox.chaos.group import Group
from sandbox.chaos.world import World

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One entry of a schedule: all random choices of a fault.

    Attributes:
        number: place in the schedule, from 1.
        kind: name of the kind.
        group: the group that it affects, if it affects one.
        pick: which member, broker or partition, modulo their number.
    """

    number: int
    kind: str
    group: str
    pick: int


class Fault(ABC):
    """One fault: the run calls `inject` and `heal`, and then waits until the world has settled."""

    kind: ClassVar[str]
    title: ClassVar[str]
    like: ClassVar[str] = ""
    """A name shared by kinds that are the same fault without agents; empty where there is no other such kind."""
    on_agents: ClassVar[bool] = False
    """Whether it affects agents only: without agents nothing is injected."""

    def __init__(self, drawn: Drawn, world: World) -> None:
        self.drawn = drawn
        self.world = world
        self.target = ""
        """What it actually affected, in words."""
        self.violations: list[str] = []
        """How groups without consumers differed from groups without agents, in words."""
        self.counts_from: dict[str, int] = {}
        """Group to the time when its consumers restarted: no member could read before, so a stop counts from then."""

    @abstractmethod
    def inject(self) -> None:
        """Inject the fault; returns when it is done."""

    def heal(self) -> None:  # noqa: B027 - many faults leave nothing to heal
        """Undo the fault; always called, also if `inject` failed half way."""

    def explains(self) -> frozenset[str]:
        """Returns the groups that it may rebalance."""
        return frozenset()

    @property
    def group(self) -> Group:
        """The group that it affects."""
        return self.world.groups[self.drawn.group]

    def pick(self, among: Sequence[T]) -> T:
        """Returns the element that the schedule has drawn."""
        return among[self.drawn.pick % len(among)]

    def agent(self) -> Agent | None:
        """Returns the agent that is in the group now; None where there is none."""
        if self.world.agents is None:
            return None
        found = self.world.agents.active(self.drawn.group)
        self.target = f"agent {found.name}" if found else "no agent"
        return found


def hold(seconds: float) -> None:
    """Let the fault last."""
    time.sleep(seconds)
