"""The environment of faults: the cluster, the groups, the agents if there are any, and the checks of their state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException
from rich.markup import escape

from sandbox.admin import Admin, wait_until
from sandbox.chaos import guests
from sandbox.chaos.agents import LOOKING, OBSERVING, PRESENT, Agents
from sandbox.chaos.group import Group, now_ns
from sandbox.chaos.means import Means
from sandbox.chaos.network import Network
from sandbox.chaos.setup import PROPERTIES as CLIENT_PROPERTIES
from sandbox.chaos.setup import Setup
from sandbox.cluster import Cluster
from sandbox.errors import SandboxError

PLACED: Final = ((1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2))
"""Brokers by partition: each rack leads two, and any one broker may fail."""
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
        seats=(("java", "rack-a"), ("confluent", "rack-b"), ("franz-go", "rack-c")),
        extra=("confluent", "rack-c"),
        placed=PLACED,
    ),
    Setup(
        name="go",
        assignor="range",
        seats=(("sarama", "rack-a"), ("kafka-go", "rack-b"), ("confluent", "rack-c")),
        extra=("sarama", "rack-c"),
        placed=PLACED,
    ),
)
"""Groups under load, for which faults are drawn: eager and cooperative, on clients of five languages."""
KAFKAJS: Final = "kafkajs"
KAFKAJS_SETUP: Final = Setup(
    name=KAFKAJS,
    assignor="RoundRobinAssigner",
    seats=(("kafkajs", "rack-a"), ("kafkajs", "rack-b")),
    extra=("kafkajs", "rack-c"),
    placed=PLACED,
    led_late=False,
)
"""Under load; its leader gives partitions to every member, so that an agent enters it only at the group's start."""
IDLE: Final = "idle"
IDLE_SETUP: Final = Setup(
    name=IDLE,
    assignor="range",
    seats=(("confluent", "rack-b"),),
    extra=("confluent", "rack-c"),
    placed=PLACED,
    properties={**CLIENT_PROPERTIES, "enable.auto.commit": "false"},
    idle=True,
)
"""Its commits soon exceed the retention that brokers apply to topics without subscribers."""
PROPERTIES: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "3000",  # Kafka's default
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
}
_BESIDE: Final = frozenset({"standby", "fenced"})
"""A fenced agent is on standby until an election makes it active again."""
_START_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 60.0
_MAX_DEPLOYS: Final = 2
"""In a cooperative group the agent keeps the place that it chose, and each new member may get a place before it."""
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
        setups: Sequence[Setup] = (IDLE_SETUP, *SETUPS, KAFKAJS_SETUP),
    ) -> None:
        """Prepare; entering the context starts everything.

        Args:
            folder: for histories and logs.
            with_agents: whether to start agents.
            means: what is possible on this machine.
            tell: called with progress messages.
            setups: the groups.
        """
        self.folder = folder
        self.means = means
        self.groups: dict[str, Group] = {}
        self.agents: Agents | None = None
        self.network = Network(enabled=means.network)
        self._crashes: list[str] = []
        self._unsettled: list[str] = []
        self._with_agents = with_agents
        self._tell = tell
        self._setups = tuple(setups)
        self._stack = ExitStack()

    def agreed(self) -> bool:
        """Returns whether all groups are stable and complete, according to members and coordinators."""
        return all(group.agrees() for group in self.groups.values())

    def replicated(self) -> bool:
        """Returns whether every replica of the groups' topics and of `__consumer_offsets` is in sync."""
        placed = self.admin.replicas([*self.groups, "__consumer_offsets"])
        return all(set(found.replicas) == found.in_sync for found in placed.values())

    def wait_settled(self, *, timeout: float = _SETTLE_SECONDS) -> int:
        """Wait until all groups agree for half a second and all partitions are read again; returns the time.

        Members that have ended by themselves are started again.

        Raises:
            SandboxError: It takes too long; with the state of the groups.
        """
        since: list[int] = []

        def settled() -> bool:
            for group in self.groups.values():
                self._crashes += group.revive()
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
                len(group.reads_since(since[0])) == len(group.setup.placed)
                for group in self.groups.values()
                if not group.setup.idle
            )

        try:
            wait_until(settled, "all groups have settled", timeout=timeout)
        except SandboxError as error:
            trouble = "\n".join(group.trouble() for group in self.groups.values())
            raise SandboxError(f"{error}\n{trouble}\nagents: {self.agents and self.agents.roles()}") from None
        return since[-1]

    def settle(self) -> None:
        """Wait until agents and groups have settled. If they do not, record that, and restart all members.

        Raises:
            SandboxError: They do not settle then either.
        """
        try:
            self.wait_agents()
            self.wait_settled()
        except SandboxError as error:
            self._tell(f"[red]{escape(str(error))}[/red]")
            self._unsettled.append(str(error))
            for group in self.groups.values():
                group.restart()
            self.wait_agents()
            self.wait_settled()

    def take_unsettled(self) -> tuple[str, ...]:
        """Returns what did not settle in time since the last call."""
        found, self._unsettled = tuple(self._unsettled), []
        return found

    def take_crashes(self) -> tuple[str, ...]:
        """Returns members that have ended by themselves since the last call, with their last output."""
        found, self._crashes = tuple(self._crashes), []
        return found

    def wait_agents(self, *, timeout: float = 40.0) -> None:
        """Start agents that do not run, and wait until one is in each group and the other is not.

        Raises:
            SandboxError: It takes too long; with their roles.
        """
        if self.agents is None:
            return
        agents = self.agents
        agents.ensure_running()

        def back() -> bool:
            if not all(one.answers for one in agents.all):
                return False
            return all(self._are_placed(name, pair) for name, pair in agents.roles().items())

        try:
            wait_until(back, "agents are in all groups again", timeout=timeout)
        except SandboxError as error:
            raise SandboxError(f"{error}: {agents.roles()}") from None

    def _are_placed(self, name: str, roles: Sequence[str]) -> bool:
        """Returns whether one agent is in the group, or observes a group that it cannot lead, the others on standby."""
        keeps_out = OBSERVING in roles and self.agents is not None and self.agents.finds_no_place(name)
        present = PRESENT | {OBSERVING} if keeps_out or not self._led_late(name) else PRESENT
        return sum(role in present for role in roles) == 1 and all(role in present | _BESIDE for role in roles)

    def _led_late(self, name: str) -> bool:
        return all(setup.led_late for setup in self._setups if setup.name == name)

    def take_the_lead(self) -> None:
        """Redeploy the leading member of each group that no agent leads; if that does not help, restart all members.

        An agent leads a group from its start, unless the group starts with a protocol that the agent does not offer.
        """
        agents = self.agents
        if agents is None:
            return
        for name, group in sorted(self.groups.items()):
            if not group.setup.led_late:
                continue
            tries = 0
            while name not in agents.led() and tries < _MAX_DEPLOYS:
                tries += 1
                leader = agents.leader(name)
                for seat in [seat for seat in group.present if leader.startswith(seat.name)]:
                    self._tell(f"[dim]no agent leads {name}: {seat.name} leads it and is deployed[/dim]")
                    group.redeploy(seat)
                self.settle()
            if name not in agents.led():
                self._tell(f"[dim]no agent leads {name}: all its members end, and start again[/dim]")
                group.restart()
                self.settle()

    def finish(self) -> list[str]:
        """Drain all groups; returns how they differ from groups without agents two seconds later.

        Raises:
            SandboxError: Records are not read in time.
        """
        for group in self.groups.values():
            group.drain()
        left = time.monotonic()
        violations = []
        for group in self.groups.values():
            violations += guests.wait_empty(group, left, seconds=guests.TOOL_SECONDS)
            group.note_offsets()
            violations += guests.reset_offsets(group)
        return violations

    def mark(self) -> None:
        """Mark the start of the next fault in all groups."""
        for group in self.groups.values():
            group.mark()

    def generations(self) -> Mapping[str, int]:
        """Returns the generation of each group, as recorded by its members."""
        return {name: group.generation() for name, group in self.groups.items()}

    def __enter__(self) -> Self:
        """Start the cluster, then agents and groups."""
        with ExitStack() as stack:
            stack.callback(self.network.close)
            self._tell("starting three brokers, one in each rack")
            self.cluster = stack.enter_context(Cluster(properties=PROPERTIES))
            self.admin = stack.enter_context(Admin(self.cluster.bootstrap))
            if self._with_agents:
                names = [setup.name for setup in self._setups]
                agents = Agents(bootstrap=self.cluster.bootstrap, groups=names, folder=self.folder / "agents")
                stack.callback(self.means.clean, agents.all, self.folder)
                self.means.prepare(agents.all, self.folder)
                self.agents = stack.enter_context(agents)
                agents.wait_roles(agents.all[0], LOOKING, timeout=_START_SECONDS)  # it waits for consumers
                agents.all[1].start()
                agents.wait_roles(agents.all[1], _BESIDE, timeout=_START_SECONDS)
            self._tell(
                f"{len(self._setups)} groups start"
                + (", led by an agent with a second one standing by" if self.agents else "")
            )
            for setup in self._setups:
                group = Group(
                    setup, bootstrap=self.cluster.bootstrap, admin=self.admin, folder=self.folder / setup.name
                )
                self.groups[setup.name] = stack.enter_context(group)
                self.wait_settled(timeout=_START_SECONDS)  # in sequence: on two cores, all at once would starve agents
            self.wait_agents(timeout=_START_SECONDS)
            self.take_the_lead()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """End everything at once."""
        self._stack.__exit__(kind, error, trace)
