"""What every fault is: how it is drawn, done, undone, and whose rebalances it explains."""

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
    """One entry of a schedule: everything about a fault that chance decides.

    Attributes:
        number: place in the schedule, from 1.
        kind: name of the kind.
        group: the group that it is about, if it is about one.
        pick: which member, broker or partition, counted round.
    """

    number: int
    kind: str
    group: str
    pick: int


class Fault(ABC):
    """One fault: `inject`, `heal`, and then the world is waited for."""

    kind: ClassVar[str]
    title: ClassVar[str]
    like: ClassVar[str] = ""
    """What it is without agents, where other kinds are the same then; empty where it is like no other."""
    on_agents: ClassVar[bool] = False
    """Whether it happens to agents only: without any, nothing happens."""

    def __init__(self, drawn: Drawn, world: World) -> None:
        self.drawn = drawn
        self.world = world
        self.target = ""
        """What it turned out to happen to, in words."""
        self.violations: list[str] = []
        """What groups without consumers were not, in words."""
        self.counts_from: dict[str, int] = {}
        """Group to when its consumers came back: nobody could read before, and a stop counts from then."""

    @abstractmethod
    def inject(self) -> None:
        """Do it; returns when it is done."""

    def heal(self) -> None:  # noqa: B027 - many faults leave nothing to heal
        """Undo it; called in any case, also if injecting failed half way."""

    def explains(self) -> frozenset[str]:
        """The groups that it may well rebalance."""
        return frozenset()

    @property
    def group(self) -> Group:
        """The group that it is about."""
        return self.world.groups[self.drawn.group]

    def pick(self, among: Sequence[T]) -> T:
        """The one of these that chance decided on."""
        return among[self.drawn.pick % len(among)]

    def agent(self) -> Agent | None:
        """The agent that is in the group now; None in a world without any."""
        if self.world.agents is None:
            return None
        found = self.world.agents.active(self.drawn.group)
        self.target = f"agent {found.name}" if found else "no agent"
        return found


def hold(seconds: float) -> None:
    """Let the fault last."""
    time.sleep(seconds)
