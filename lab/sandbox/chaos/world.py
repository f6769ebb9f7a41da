"""The environment of faults: the cluster, the groups, the agents if there are any, and the checks of their state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from confluent_kafka import KafkaException
from rich.markup import escape

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.chaos import guests
from lab.sandbox.chaos.agents import ACTIVE, PRESENT, Agents
from lab.sandbox.chaos.group import Group, now_ns
from lab.sandbox.chaos.means import Means, Network
from lab.sandbox.chaos.setup import IDLE, SETUPS
from lab.sandbox.cluster import Cluster
from lab.sandbox.errors import SandboxError
from lab.sandbox.story import three_brokers

_PROPERTIES: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "3000",  # Kafka's default
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
}
_BESIDE: Final = frozenset({"standby", "fenced"})
"""A fenced agent is on standby until an election makes it active again."""
_START_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 60.0
_AGENT_SECONDS: Final = 40.0
_ROOM_SECONDS: Final = 120.0
"""An agent that has made room for as many consumers again as it saw at the birth of a group comes in after a minute."""
_QUIET_SECONDS: Final = 0.5


class World:
    """A running world with its histories and logs in a folder; a context manager that starts and ends it."""

    cluster: Cluster
    admin: Admin

    def __init__(
        self,
        *,
        folder: Path,
        with_agents: bool,
        means: Means,
        report: Callable[[str], None],
        max_group_size: int | None = None,
    ) -> None:
        """Prepare; `max_group_size` is the brokers' `group.max.size`, if they have one."""
        self.folder = folder
        self.groups: dict[str, Group] = {}
        self.agents: Agents | None = None
        self.network = Network(enabled=means.network)
        self._means = means
        self._max_group_size = max_group_size
        self._crashes: list[str] = []
        self._unsettled: list[str] = []
        self._with_agents = with_agents
        self._report = report
        self._stack = ExitStack()

    def replicated(self) -> bool:
        """Return whether every replica of the groups' topics and of `__consumer_offsets` is in sync."""
        placed = self.admin.replicas([*self.groups, "__consumer_offsets"])
        return all(set(found.replicas) == found.in_sync for found in placed.values())

    def generations(self) -> dict[str, int]:
        """Return the generation of each group, as recorded by its members."""
        return {name: group.generation() for name, group in self.groups.items()}

    def has_room(self, group: Group) -> bool:
        """Return whether an agent may be in a group: one more consumer must fit beside it."""
        return self._max_group_size is None or len(group.present) + 2 <= self._max_group_size

    def left_alone(self) -> frozenset[str]:
        """Return the groups that no agent is in."""
        return frozenset() if self.agents is None else frozenset(self.groups) - self.agents.having(PRESENT)

    def settle(self) -> None:
        """Wait until agents and groups have settled. If they do not, records that, and restart all members."""
        try:
            self._wait_agents()
            self._wait_settled()
        except SandboxError as error:
            self._report(f"[red]{escape(str(error))}[/red]")
            self._unsettled.append(str(error))
            for group in self.groups.values():
                group.restart()
            self._wait_agents()
            self._wait_settled()

    def take_trouble(self) -> tuple[list[str], list[str]]:
        """Return members that ended by themselves, and what did not settle in time, since the last call."""
        found = self._crashes, self._unsettled
        self._crashes, self._unsettled = [], []
        return found

    def _wait_settled(self, *, timeout: float = _SETTLE_SECONDS) -> None:
        """Wait until all groups agree for half a second and all partitions are read again.

        Members that have ended by themselves are started again.
        """
        since: list[int] = []

        def settled() -> bool:
            for group in self.groups.values():
                self._crashes += group.revive()
            try:
                agreed = all(group.agrees() for group in self.groups.values())
            except KafkaException:
                agreed = False
            if not agreed:
                since.clear()
                return False
            since.append(now_ns())
            return since[-1] - since[0] > _QUIET_SECONDS * 1e9 and all(
                len(group.reads_since(since[0])) == len(group.setup.placed)
                for group in self.groups.values()
                if not group.setup.idle
            )

        try:
            wait_until(settled, "all groups have settled", timeout=timeout)
        except SandboxError as error:
            trouble = "\n".join(group.trouble() for group in self.groups.values())
            raise SandboxError(f"{error}\n{trouble}\nagents: {self.agents and self.agents.roles()}") from None

    def _wait_agents(self, roles: AbstractSet[str] = ACTIVE, *, timeout: float = _AGENT_SECONDS) -> None:
        """Start agents that do not run, and wait until one has such a role in each group, and the other is beside it.

        By default the one may stay out of groups that are full.
        """
        agents = self.agents
        if agents is None:
            return
        for one in agents.all:
            if not one.running:
                one.start()

        def back() -> bool:
            return all(one.answers for one in agents.all) and all(
                sum(role in roles for role in found) == 1 and all(role in roles | _BESIDE for role in found)
                for found in agents.roles().values()
            )

        try:
            wait_until(back, "agents are in all groups again", timeout=timeout)
        except SandboxError as error:
            raise SandboxError(f"{error}: {agents.roles()}") from None

    def take_the_lead(self) -> None:
        """Restart all members of each group that an agent only follows: it leads a group from its start."""
        for name, group in sorted(self.groups.items()):
            if self.agents is not None and name in self.agents.having({"following"}):
                self._report(f"[dim]no agent leads {name}: all its members end, and start again[/dim]")
                group.restart()
                self.settle()

    def finish(self) -> list[str]:
        """Drain all groups; return how they differ from groups without agents two seconds later."""
        for group in self.groups.values():
            group.drain()
        for group in self.groups.values():
            if group.setup.static:
                guests.wait_without_consumers(group)  # a static member that ends is removed after its session
        left = time.monotonic()
        return [violation for group in self.groups.values() for violation in guests.check(group, left)]

    def __enter__(self) -> Self:
        """Start the cluster, then agents and groups."""
        setups = (IDLE, *SETUPS)
        with ExitStack() as stack:
            stack.callback(self.network.close)
            limit = {} if self._max_group_size is None else {"group.max.size": str(self._max_group_size)}
            properties = {**_PROPERTIES, **limit}
            self.cluster, self.admin = stack.enter_context(three_brokers(self._report, properties=properties))
            if self._with_agents:
                names = [setup.name for setup in setups]
                agents = Agents(bootstrap=self.cluster.bootstrap, groups=names, folder=self.folder / "agents")
                stack.callback(self._means.clean, agents.all, self.folder)
                self._means.prepare(agents.all, self.folder)
                self.agents = stack.enter_context(agents)
                agents.all[0].start()
                agents.wait_roles(agents.all[0], timeout=_START_SECONDS)  # it waits for consumers
                agents.all[1].start()
                agents.wait_roles(agents.all[1], _BESIDE, timeout=_START_SECONDS)
            led = ", led by an agent with a second one standing by" if self.agents else ""
            self._report(f"{len(setups)} groups start{led}")
            for setup in setups:
                group = Group(
                    setup, bootstrap=self.cluster.bootstrap, admin=self.admin, folder=self.folder / setup.name
                )
                self.groups[setup.name] = stack.enter_context(group)
                self._wait_settled(timeout=_START_SECONDS)  # in sequence: on two cores, all at once would starve agents
            self._wait_agents(PRESENT, timeout=_START_SECONDS if self._max_group_size is None else _ROOM_SECONDS)
            self.take_the_lead()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End everything at once."""
        self._stack.close()
