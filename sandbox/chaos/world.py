"""Everything that faults happen to: the cluster, the groups, the agents if there are any, and how it all stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException

from sandbox.admin import Admin, wait_until
from sandbox.chaos.agents import Agents
from sandbox.chaos.group import Group, Setup, now_ns
from sandbox.chaos.means import Means
from sandbox.chaos.network import Network
from sandbox.cluster import Cluster
from sandbox.errors import SandboxError

PLACED: Final = ((1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2))
"""Brokers by partition: each rack leads two, and any broker may go."""
SETUPS: Final = (
    Setup(
        name="eager",
        assignor="range",
        seats=(("java", "rack-a"), ("kafka-python", "rack-b"), ("confluent", "rack-c")),
        extra=("kafka-python", "rack-a"),
        placed=PLACED,
    ),
    Setup(
        name="cooperative",
        assignor="cooperative-sticky",
        seats=(("java", "rack-a"), ("confluent", "rack-b"), ("java", "rack-c")),
        extra=("confluent", "rack-c"),
        placed=PLACED,
    ),
    Setup(
        name="librdkafka",
        assignor="range",
        seats=(("confluent", "rack-a"), ("confluent", "rack-b"), ("confluent", "rack-c")),
        extra=("confluent", "rack-a"),
        placed=PLACED,
    ),
)
"""Eager in three languages, cooperative in two, eager in one."""
_PRESENT: Final = frozenset({"leading", "following"})
_BESIDE: Final = frozenset({"standby", "fenced"})
"""A fenced agent stands by until an election makes it active again."""
_START_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 60.0
_MOST_DEPLOYS: Final = 6
"""In a cooperative group the agent keeps the place that it chose, and every member before it has its turn."""
_QUIET_SECONDS: Final = 0.5


class World:
    """A running world; a context manager that ends it."""

    def __init__(
        self,
        *,
        folder: Path,
        with_agents: bool,
        means: Means,
        tell: Callable[[str], None],
        setups: Sequence[Setup] = SETUPS,
    ) -> None:
        """Prepare; entering the context starts everything.

        Args:
            folder: for histories and logs.
            with_agents: whether there are any.
            means: what this machine lets us do.
            tell: is told what happens.
            setups: the groups.
        """
        self.folder = folder
        self.means = means
        self.groups: dict[str, Group] = {}
        self.agents: Agents | None = None
        self.network = Network(enabled=means.network)
        self._with_agents = with_agents
        self._tell = tell
        self._setups = tuple(setups)
        self._stack = ExitStack()

    def agreed(self) -> bool:
        """Whether all groups are stable and complete, as members and coordinators tell alike."""
        return all(group.agrees() for group in self.groups.values())

    def replicated(self) -> bool:
        """Whether every replica of the groups' topics is in sync."""
        placed = self.admin.replicas([*self.groups, "__consumer_offsets"])
        return all(set(found.replicas) == found.in_sync for found in placed.values())

    def wait_settled(self, *, timeout: float = _SETTLE_SECONDS) -> int:
        """Wait until all groups agree, go on to agree, and all partitions are read again; since when they have been.

        Raises:
            SandboxError: It takes too long; with how the groups stand.
        """
        since: list[int] = []

        def settled() -> bool:
            try:
                agreed = self.agreed()
            except KafkaException:
                agreed = False
            if not agreed:
                since.clear()
                return False
            since.append(now_ns())
            quiet = since[-1] - since[0] > _QUIET_SECONDS * 1e9
            return quiet and all(
                len(group.reads_since(since[0])) == len(group.setup.placed) for group in self.groups.values()
            )

        try:
            wait_until(settled, "all groups have settled", timeout=timeout)
        except SandboxError as error:
            trouble = "\n".join(group.trouble() for group in self.groups.values())
            raise SandboxError(f"{error}\n{trouble}\nagents: {self.agents and self.agents.roles()}") from None
        return since[-1]

    def wait_agents(self, *, timeout: float = 40.0) -> None:
        """Start agents that do not run, and wait until one is in each group and the other is not.

        Raises:
            SandboxError: One does not come back; with what they are.
        """
        if self.agents is None:
            return
        agents = self.agents
        agents.ensure_running()

        def back() -> bool:
            if not all(one.answers for one in agents.all):
                return False
            pairs = agents.roles().values()
            return all(len([role for role in pair if role in _PRESENT]) == 1 for pair in pairs) and all(
                role in _PRESENT | _BESIDE for pair in pairs for role in pair
            )

        try:
            wait_until(back, "agents are in all groups again", timeout=timeout)
        except SandboxError as error:
            raise SandboxError(f"{error}: {agents.roles()}") from None

    def take_the_lead(self) -> None:
        """Where no agent leads a group, deploy the member that does, until one leads or it has been tried often."""
        agents = self.agents
        if agents is None:
            return
        for name, group in sorted(self.groups.items()):
            tries = 0
            while name not in agents.led() and tries < _MOST_DEPLOYS:
                tries += 1
                leader = agents.leader(name)
                for seat in [seat for seat in group.present if leader.startswith(seat.name)]:
                    self._tell(f"[dim]no agent leads {name}: {seat.name} leads it and is deployed[/dim]")
                    group.redeploy(seat)
                self.wait_settled()
                self.wait_agents()

    def mark(self) -> None:
        """What happens from here on is of the next fault."""
        for group in self.groups.values():
            group.mark()

    def generations(self) -> Mapping[str, int]:
        """The generation that each group is in, as its members tell."""
        return {name: group.generation() for name, group in self.groups.items()}

    def __enter__(self) -> Self:
        """Start the cluster, then agents and groups."""
        with ExitStack() as stack:
            stack.callback(self.network.close)
            self._tell("starting three brokers, one in each rack")
            self.cluster = stack.enter_context(Cluster())
            self.admin = stack.enter_context(Admin(self.cluster.bootstrap))
            if self._with_agents:
                names = [setup.name for setup in self._setups]
                agents = Agents(bootstrap=self.cluster.bootstrap, groups=names, folder=self.folder / "agents")
                stack.callback(self.means.clean, agents.all, self.folder)
                self.means.prepare(agents.all, self.folder)
                self.agents = stack.enter_context(agents)
                agents.wait_leads(agents.all[0], timeout=_START_SECONDS)  # first in an empty group: it leads
                agents.all[1].start()
                self.wait_agents(timeout=_START_SECONDS)
            self._tell(
                "three groups start" + (", led by an agent with a second one standing by" if self.agents else "")
            )
            for setup in self._setups:
                group = Group(
                    setup, bootstrap=self.cluster.bootstrap, admin=self.admin, folder=self.folder / setup.name
                )
                self.groups[setup.name] = stack.enter_context(group)
                self.wait_settled(timeout=_START_SECONDS)  # one after the other: on two cores all at once starve agents
            self.wait_agents(timeout=_START_SECONDS)
            self.take_the_lead()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """End everything, in haste."""
        self._stack.__exit__(kind, error, trace)
