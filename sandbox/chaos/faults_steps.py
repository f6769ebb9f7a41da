"""Faults of agents at each step of a rebalance: parked in JoinGroup, between JoinGroup and SyncGroup, after SyncGroup.

A stopped member keeps the group waiting in JoinGroup while the extra member joins or leaves; the agent parks there
after its next heartbeat. For the second step the agent's requests are dropped from then on: it gets the answer to
JoinGroup, but its SyncGroup never arrives, so the group waits for the plan until the agent is hit. The third step
starts when the agent logs that its plan was sent. Without agents the group has the same rebalance.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from sandbox.admin import wait_until
from sandbox.chaos.agents import Agent
from sandbox.chaos.fault import Drawn, Fault, hold
from sandbox.chaos.world import World
from sandbox.errors import SandboxError

Step = Literal["parked", "joined", "synced"]
Victim = Literal["worker", "agent", "pause"]
_PARKED_SECONDS: Final = 0.8
"""An agent's heartbeat is half a second away at most."""
_PLAN_SECONDS: Final = 10.0


class _InRebalance(Fault):
    like = "rebalance with a slow member"
    step: ClassVar[Step]
    victim: ClassVar[Victim]

    def __init__(self, drawn: Drawn, world: World) -> None:
        super().__init__(drawn, world)
        slow = [seat for seat in self.group.seats if seat in self.group.present]
        self._slow = self.pick(slow)

    def inject(self) -> None:
        """Rebalance the group, and hit its agent at the step."""
        agent = self.agent()
        if agent is not None and agent.role(self.drawn.group) != "leading":
            raise SandboxError(f"agent {agent.name} does not lead {self.drawn.group}, so that it cannot be hit in that")
        group, network = self.group, self.world.network
        before = 0 if agent is None else len(agent.told())
        group.pause(self._slow)
        try:
            comes = group.come_or_go()
            self.target = f"{self.target or group.name}, {group.extra.name} {comes}"
            group.wait_state(("PREPARING_REBALANCING",), "it waits in JoinGroup")
            hold(_PARKED_SECONDS)
            if self.step == "parked" and agent is not None:
                self.hit(agent)
            if self.step == "joined" and agent is not None:
                network.cut(self._number(agent))
        finally:
            group.resume(self._slow)
        if agent is None or self.step == "parked":
            return
        if self.step == "joined":
            group.wait_state(("COMPLETING_REBALANCING",), "it waits for the plan")
            network.bury(agent.worker())  # its SyncGroup, which the kernel would send again, must never arrive
            self.hit(agent)
            network.mend(self._number(agent))
        else:
            wait_until(lambda: self._planned(agent, before), "the plan is sent", timeout=_PLAN_SECONDS, pause=0.005)
            self.hit(agent)

    def heal(self) -> None:
        """Resume the slow member and remove all cuts, in any case."""
        self.group.resume(self._slow)
        self.world.network.mend_all()

    def explains(self) -> frozenset[str]:
        """Returns its own group, which was rebalanced."""
        return frozenset({self.drawn.group})

    def hit(self, agent: Agent) -> None:
        """Kill or stop the agent or its worker."""
        if self.victim == "worker":
            agent.kill_worker()
        elif self.victim == "pause":
            agent.pause_worker()
        else:
            agent.process.kill()

    def _number(self, agent: Agent) -> int:
        if self.world.agents is None:
            raise SandboxError("there are no agents")
        return self.world.agents.all.index(agent)

    def _planned(self, agent: Agent, before: int) -> bool:
        return any(_is_plan(event, self.drawn.group) for event in agent.told(before))


def _is_plan(event: dict[str, Any], group: str) -> bool:
    return event.get("event") == "plan-sent" and event.get("group") == group


_STEPS: Final[dict[Step, str]] = {
    "parked": "in JoinGroup",
    "joined": "between JoinGroup and SyncGroup",
    "synced": "after SyncGroup",
}
_VICTIMS: Final[dict[Victim, str]] = {
    "worker": "worker killed",
    "agent": "supervisor and worker killed",
    "pause": "worker stopped",
}


def _kind(step: Step, victim: Victim) -> type[_InRebalance]:
    fields = {
        "step": step,
        "victim": victim,
        "kind": f"{step}-{victim}",
        "title": f"{_VICTIMS[victim]} {_STEPS[step]}",
        "__doc__": f"{_VICTIMS[victim]} {_STEPS[step]}.",
    }
    return type(f"_{step}_{victim}", (_InRebalance,), fields)


KINDS: Final[tuple[type[Fault], ...]] = tuple(_kind(step, victim) for step in _STEPS for victim in _VICTIMS)
