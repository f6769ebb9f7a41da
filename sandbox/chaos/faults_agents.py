"""Faults of agents while groups are stable: killed, stopped, ended, cut off, with a wrong clock or a full disk."""

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
        """Hit the agent that is in the group."""
        agent = self.agent()
        if agent is not None:
            self._dynamic = frozenset(name for name, group in self.world.groups.items() if group.has_dynamic_agent())
            self.hit(agent)

    def explains(self) -> frozenset[str]:
        """Returns groups with the agent as dynamic member, as with sticky assignors: they rebalance without it."""
        return self._dynamic

    @abstractmethod
    def hit(self, agent: Agent) -> None:
        """Inject the fault into this agent."""

    def hand_over(self, agent: Agent) -> None:
        """Wait until the other agent has taken over."""
        if self.world.agents is not None:
            other = self.world.agents.other(agent)
            self.world.agents.wait_leads(other)


class WorkerKilled(_OnAgent):
    """The worker is killed; its supervisor replaces it."""

    kind = "worker-killed"
    title = "worker killed"

    def hit(self, agent: Agent) -> None:
        """Send SIGKILL to the worker."""
        agent.kill_worker()


class WorkerStopped(_OnAgent):
    """The worker is stopped; its supervisor detects that it hangs, and replaces it."""

    kind = "worker-stopped"
    title = "worker stopped for good"

    def hit(self, agent: Agent) -> None:
        """Send SIGSTOP to the worker, and no SIGCONT."""
        stopped = agent.worker()
        agent.pause_worker()
        wait_until(lambda: agent.worker() != stopped, "the supervisor has replaced its worker", timeout=_MISSED_SECONDS)


class AgentKilled(_OnAgent):
    """The agent is killed; the other one detects that and takes over."""

    kind = "agent-killed"
    title = "supervisor and worker killed"

    def hit(self, agent: Agent) -> None:
        """Send SIGKILL to supervisor and worker."""
        agent.process.kill()
        self.hand_over(agent)


class AgentEnded(_OnAgent):
    """The agent stops on SIGTERM and hands over to the other one."""

    kind = "agent-ended"
    title = "agent ended with SIGTERM"

    def hit(self, agent: Agent) -> None:
        """Send SIGTERM to the supervisor."""
        agent.process.stop()
        self.hand_over(agent)

    def explains(self) -> frozenset[str]:
        """Returns all groups: one that it leaves before the other agent is ready rebalances without a report."""
        return frozenset(self.world.groups)


class AgentStoppedShort(_OnAgent):
    """The agent is stopped for less than its session: no other agent must take over."""

    kind = "agent-stopped-short"
    title = "agent stopped for two seconds"

    def hit(self, agent: Agent) -> None:
        """Send SIGSTOP and SIGCONT to supervisor and worker."""
        agent.process.pause()
        try:
            hold(_SHORT_SECONDS)
        finally:
            agent.resume()


class AgentStoppedLong(_OnAgent):
    """The agent is stopped until the other one takes over; then it continues with an old generation."""

    kind = "agent-stopped-long"
    title = "agent stopped until the other takes over"

    def hit(self, agent: Agent) -> None:
        """Send SIGSTOP and, when the other agent is in the groups, SIGCONT to supervisor and worker."""
        agent.process.pause()
        try:
            self.hand_over(agent)
        finally:
            agent.resume()


class _Cut(_OnAgent):
    def number(self, agent: Agent) -> int:
        return self.world.agents.all.index(agent) if self.world.agents is not None else 0

    def heal(self) -> None:
        """Let all traffic through again."""
        self.world.network.mend_all()


class CutShort(_Cut):
    """The agent is cut off for less than its session."""

    kind = "network-cut-short"
    title = "agent's network cut for two seconds"

    def hit(self, agent: Agent) -> None:
        """Drop what it sends for two seconds."""
        self.world.network.cut(self.number(agent))
        hold(_SHORT_SECONDS)


class CutLong(_Cut):
    """The agent is cut off until the other one takes over."""

    kind = "network-cut-long"
    title = "agent's network cut until the other takes over"

    def hit(self, agent: Agent) -> None:
        """Drop what it sends until the other is in the groups."""
        self.world.network.cut(self.number(agent))
        self.hand_over(agent)


class _ClockJumps(_OnAgent):
    seconds = 0

    def hit(self, agent: Agent) -> None:
        """Make the agent with the adjustable clock the active one, and change its clock."""
        agents = self.world.agents
        if agents is None:
            return
        bent = agents.all[BENT]
        if agent is not bent:
            agent.process.stop()  # the agent with the adjustable clock takes over
            agents.wait_leads(bent)
        self.target = f"agent {bent.name}"
        bend(self.world.folder, self.seconds)
        hold(_SHORT_SECONDS)

    def heal(self) -> None:
        """Set the clock right again."""
        bend(self.world.folder, 0)


class ClockForward(_ClockJumps):
    """As when a machine with a wrong clock synchronises with its time server."""

    kind = "clock-forward"
    title = "agent's clock jumps an hour ahead, and back"
    seconds = 3600


class ClockBack(_ClockJumps):
    """The same, in the other direction."""

    kind = "clock-back"
    title = "agent's clock jumps an hour back, and forth"
    seconds = -3600


class DiskFull(_OnAgent):
    """The disk of the agent's events is full; the worker is killed as well, so that a new one must start with it."""

    kind = "disk-full"
    title = "agent's disk full, then its worker killed"

    def hit(self, agent: Agent) -> None:
        """Fill the disk, and kill the worker."""
        fill(self.world.folder, agent)
        hold(_SHORT_SECONDS / 2)
        agent.kill_worker()
        hold(_SHORT_SECONDS)

    def heal(self) -> None:
        """Free the space again."""
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
