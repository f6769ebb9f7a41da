"""Faults of agents while groups are stable: killed, stopped, ended, cut off, with a bent clock."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from sandbox.admin import wait_until
from sandbox.chaos.agents import Agent
from sandbox.chaos.fault import Fault, hold
from sandbox.chaos.means import BENT, bend, empty, fill

_SHORT_SECONDS: Final = 2.0
_MISSED_SECONDS: Final = 20.0


class _OnAgent(Fault):
    like = "nothing"
    on_agents = True
    _dynamic: frozenset[str] = frozenset()

    def inject(self) -> None:
        """Do it to the agent that is in the group."""
        agent = self.agent()
        if agent is not None:
            self._dynamic = frozenset(name for name, group in self.world.groups.items() if group.has_dynamic_agent())
            self.hit(agent)

    def explains(self) -> frozenset[str]:
        """Where it is no static member, as among members with a sticky assignor, a group rebalances that misses it."""
        return self._dynamic

    @abstractmethod
    def hit(self, agent: Agent) -> None:
        """Do it."""

    def hand_over(self, agent: Agent) -> None:
        """Wait until the other agent has taken over."""
        if self.world.agents is not None:
            other = self.world.agents.other(agent)
            self.world.agents.wait_leads(other)


class WorkerKilled(_OnAgent):
    """Its supervisor replaces it."""

    kind = "worker-killed"
    title = "worker killed"

    def hit(self, agent: Agent) -> None:
        """SIGKILL to the worker."""
        agent.kill_worker()


class WorkerStopped(_OnAgent):
    """Its supervisor finds that it hangs, and replaces it."""

    kind = "worker-stopped"
    title = "worker stopped for good"

    def hit(self, agent: Agent) -> None:
        """SIGSTOP to the worker, and nobody sends SIGCONT."""
        stopped = agent.worker()
        agent.pause_worker()
        wait_until(lambda: agent.worker() != stopped, "the supervisor has replaced its worker", timeout=_MISSED_SECONDS)


class AgentKilled(_OnAgent):
    """The other agent misses it and takes over."""

    kind = "agent-killed"
    title = "supervisor and worker killed"

    def hit(self, agent: Agent) -> None:
        """SIGKILL to both."""
        agent.process.kill()
        self.hand_over(agent)


class AgentEnded(_OnAgent):
    """It hands over to the other agent."""

    kind = "agent-ended"
    title = "agent ended with SIGTERM"

    def hit(self, agent: Agent) -> None:
        """SIGTERM to the supervisor."""
        agent.process.stop()
        self.hand_over(agent)

    def explains(self) -> frozenset[str]:
        """What it leaves because the other was not in time is rebalanced, and it has ended before it could tell."""
        return frozenset(self.world.groups)


class AgentStoppedShort(_OnAgent):
    """Within its session: nobody need take over."""

    kind = "agent-stopped-short"
    title = "agent stopped for two seconds"

    def hit(self, agent: Agent) -> None:
        """SIGSTOP and SIGCONT to both."""
        agent.process.pause()
        try:
            hold(_SHORT_SECONDS)
        finally:
            agent.resume()


class AgentStoppedLong(_OnAgent):
    """The other agent takes over; the one that slept comes back as a zombie."""

    kind = "agent-stopped-long"
    title = "agent stopped until the other takes over"

    def hit(self, agent: Agent) -> None:
        """SIGSTOP and, when the other is in the groups, SIGCONT to both."""
        agent.process.pause()
        try:
            self.hand_over(agent)
        finally:
            agent.resume()


class _Cut(_OnAgent):
    def number(self, agent: Agent) -> int:
        return self.world.agents.all.index(agent) if self.world.agents is not None else 0

    def heal(self) -> None:
        """Let everything through."""
        self.world.network.mend_all()


class CutShort(_Cut):
    """Within its session."""

    kind = "network-cut-short"
    title = "agent's network cut for two seconds"

    def hit(self, agent: Agent) -> None:
        """Drop what it sends, for a while."""
        self.world.network.cut(self.number(agent))
        hold(_SHORT_SECONDS)


class CutLong(_Cut):
    """The other agent takes over."""

    kind = "network-cut-long"
    title = "agent's network cut until the other takes over"

    def hit(self, agent: Agent) -> None:
        """Drop what it sends until the other is in the groups."""
        self.world.network.cut(self.number(agent))
        self.hand_over(agent)


class _ClockJumps(_OnAgent):
    seconds = 0

    def hit(self, agent: Agent) -> None:
        """Let the agent whose clock can be bent be the active one, and bend it."""
        agents = self.world.agents
        if agents is None:
            return
        bent = agents.all[BENT]
        if agent is not bent:
            agent.process.stop()  # the one whose clock can be bent takes over
            agents.wait_leads(bent)
        self.target = f"agent {bent.name}"
        bend(self.world.folder, self.seconds)
        hold(_SHORT_SECONDS)

    def heal(self) -> None:
        """Let it show the time again."""
        bend(self.world.folder, 0)


class ClockForward(_ClockJumps):
    """As when a machine without time hears from its time server."""

    kind = "clock-forward"
    title = "agent's clock jumps an hour ahead, and back"
    seconds = 3600


class ClockBack(_ClockJumps):
    """The same, the other way."""

    kind = "clock-back"
    title = "agent's clock jumps an hour back, and forth"
    seconds = -3600


class DiskFull(_OnAgent):
    """Where its events are kept; the worker is killed as well, so that one has to start on it."""

    kind = "disk-full"
    title = "agent's disk full, then its worker killed"

    def hit(self, agent: Agent) -> None:
        """Leave no byte free for a while."""
        fill(self.world.folder, agent)
        hold(_SHORT_SECONDS / 2)
        agent.kill_worker()
        hold(_SHORT_SECONDS)

    def heal(self) -> None:
        """Give the space back."""
        for agent in self.world.agents.all if self.world.agents is not None else ():
            empty(self.world.folder, agent)


KINDS: Final[tuple[type[Fault], ...]] = (
    WorkerKilled,
    WorkerStopped,
    AgentKilled,
    AgentEnded,
    AgentStoppedShort,
    AgentStoppedLong,
    CutShort,
    CutLong,
    ClockForward,
    ClockBack,
    DiskFull,
)
