"""The setup of most integration tests: one group, its members on real clients, a feed of records, and agents.

Members report what they own and read, and the broker reports what their leader assigned; nothing here relies on the
agent's report of what happened to the group.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.contract import RACK_SENDERS, RACKS, KafkaCluster
from lab.sandbox.errors import SandboxError
from lab.sandbox.feeder import Feeder
from lab.sandbox.group_client import AGENT, GroupClient, assigned
from lab.sandbox.members.ledger import longest_pauses, readings
from lab.sandbox.members.lines import MemberSettings, Partition
from lab.sandbox.members.process import Event, Member
from lab.sandbox.processes import tail

A: Final = "rack-a"
B: Final = "rack-b"
C: Final = "rack-c"
INTERLEAVED: Final = ((1,), (2,), (3,), (1,), (2,), (3,))
"""Brokers by partition: two partitions in each rack, placed so that range without racks never has all in rack."""
IN_TWO_RACKS: Final = ((1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2))
"""Brokers by partition: four of six partitions have a replica in any one rack."""
_TAKE_OVER_SECONDS: Final = 60.0
_PARTITION_EVENTS: Final = frozenset({"assigned", "revoked", "lost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """A member, its client and its rack."""

    member: Member
    client: str
    rack: str
    settings: MemberSettings


def _three(_topic: str, _partition: int) -> int:
    return 3


class RecordsError(AssertionError):
    """Records were lost or read twice; no second try excuses it."""

    final = True


class Scenario:
    """One group with its topics, members and agents; a context manager that ends all of it.

    Example:
        scenario.lay_out(INTERLEAVED)
        agent = scenario.agent()
        scenario.join("java", A)
        scenario.join("aiokafka", B)
        scenario.wait_settled()
    """

    def __init__(self, cluster: KafkaCluster, admin: Admin, *, folder: Path) -> None:
        """Create a scenario, with its logs in a folder; nothing runs yet."""
        self.cluster = cluster
        self.admin = admin
        self.group = f"group-{uuid.uuid4().hex[:12]}"
        self.topic = f"topic-{uuid.uuid4().hex[:12]}"
        self.topics: tuple[str, ...] = (self.topic,)
        self.participants: list[Participant] = []
        self.former: list[Participant] = []
        self._folder = folder
        self._agents: list[AgentProcess] = []
        self._ended: list[tuple[Event, str]] = []  # also of members that were killed, on a busy machine as they left
        self._numbers = 0
        self._feeding = ExitStack()
        self.asked = GroupClient(cluster.bootstrap, self.group)

    # setup

    def lay_out(self, placed: Sequence[Sequence[int]], topic: str = "") -> None:
        """Create a topic, and start to write three records every half second to each of its partitions.

        Fewer rounds would cost the brokers less, but a pause of a member would show later.
        """
        topic = topic or self.topic
        self.admin.create_topic(topic, placed)
        self._feeding.enter_context(Feeder(self.cluster.bootstrap, {topic: len(placed)}, pause=0.5, records=_three))

    def agent(
        self, *, groups: Sequence[str] | None = None, config: Path | None = None, **settings: object
    ) -> AgentProcess:
        """Start an agent that takes racks from client ids; `a__b=c` sets a.b.

        It leads the scenario's group unless others are given; none: the groups are in the file of settings.
        """
        racks = {f"*-{rack}": rack for rack in RACKS.values() if rack is not None}
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        number = len(self._agents) + 1
        running = AgentProcess(
            self.cluster.bootstrap,
            groups=[self.group] if groups is None else groups,
            log=self._folder / f"agent-{number}.log",
            settings={"racks.client_ids": racks, **dotted},
            config=config,
        )
        self._agents.append(running)
        return running

    def waiting_agent(self, *, config: Path | None = None, **settings: object) -> AgentProcess:
        """Start an agent and wait for its role `waiting`, so that it leads the group from its first consumers on."""
        running = self.agent(groups=None, config=config, **settings)
        running.wait_role("waiting")
        return running

    def join(self, client: str, rack: str, *, assignor: str = "range", **properties: str) -> Member:
        """Start a member; its client id ends with its rack. `a_b=c` sets the client's a.b.

        It sends a heartbeat every half second instead of every three, so that rebalances are short; `heartbeat_...=""`
        leaves the client's default.
        """
        self._numbers += 1
        given = {"heartbeat_interval_ms": "500", **properties}
        return self._sit(
            client,
            rack,
            MemberSettings(
                bootstrap=self.cluster.bootstrap,
                group=self.group,
                topics=self.topics,
                client_id=f"{client}-{self._numbers}-{rack}",
                rack=rack if client in RACK_SENDERS else None,
                assignors=(assignor,) if assignor else (),
                properties={key.replace("_", "."): value for key, value in given.items() if value},
            ),
        )

    def join_each(self, *clients: str, **how: str) -> None:
        """Start a member on each of these clients, in the racks in turn; `how` is as for `join`."""
        for client, rack in zip(clients, cycle((A, B, C)), strict=False):
            self.join(client, rack, **how)

    def leave_all(self) -> list[Participant]:
        """End all members cleanly; return them."""
        left = list(self.participants)
        for one in left:
            self.leave(one)
        return left

    def leave(self, one: Participant, *, kill: bool = False) -> None:
        """End a member, cleanly or with SIGKILL."""
        one.member.stop(kill=kill)
        self._ended.append((Event(kind="closed", ms=now_ms(), ns=time.time_ns()), one.settings.client_id))
        self.participants.remove(one)
        self.former.append(one)

    def redeploy(self, one: Participant, *, rack: str = "") -> Member:
        """Stop a member cleanly and start another with the same settings, but in another rack if one is given."""
        self.leave(one)
        return self._sit(one.client, rack or one.rack, replace(one.settings, rack=rack) if rack else one.settings)

    def led(self, *clients: str, **settings: Any) -> AgentProcess:
        """Return an agent that leads three members in three racks, on these clients or three others, all reads near."""
        self.lay_out(INTERLEAVED)
        agent = self.waiting_agent(**settings)
        self.join_each(*(clients or ("confluent", "aiokafka", "java")))
        self.wait_led(agent, cross_rack=0)
        return agent

    def swap(self) -> None:
        """Swap the brokers, and so the racks, of the first two partitions."""
        placed = self.admin.replicas([self.topic])
        first, second = (placed[self.topic, number].replicas for number in (0, 1))
        self.admin.move_replicas({(self.topic, 0): second, (self.topic, 1): first})

    def swap_racks(self) -> None:
        """Swap the racks of two partitions, and wait until all reads are near: the group's leader knows all racks."""
        self.swap()
        self.wait_settled(cross_rack=0)

    def wait_led(self, agent: AgentProcess, *, cross_rack: int | None = None) -> None:
        """Wait until the agent leads the members.

        On a busy machine it may come second to the initial rebalance, and follows then, as documented: the members
        start anew once.
        """
        self.wait_settled()
        agent.wait_inside()
        if agent.role() == "following":
            followed = self.leave_all()
            agent.wait_role("waiting")
            for one in followed:
                self._sit(one.client, one.rack, one.settings)
        agent.wait_role("leading")
        self.wait_settled(cross_rack=cross_rack)

    def wait_read(self) -> None:
        """Wait until a record is read of each partition that was not read before."""
        before = {partition: reading.last for partition, reading in readings(self.events()).items()}
        everything = self.admin.replicas(self.topics)
        wait_until(
            lambda: all(
                partition in (now := readings(self.events())) and now[partition].last > before.get(partition, -1)
                for partition in everything
            ),
            "each partition is read on",
        )

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        return int(self.describe().coordinator.id)

    def agent_member(self) -> Any | None:
        """The agent's member as the broker describes it; None if it is not in the group."""
        found = [member for member in self.describe().members if member.client_id == AGENT]
        return found[0] if found else None

    def _sit(self, client: str, rack: str, settings: MemberSettings) -> Member:
        member = Member.on(client, settings)
        self.participants.append(Participant(member=member, client=client, rack=rack, settings=settings))
        return member

    # what members have

    def owned(self) -> dict[str, frozenset[Partition]]:
        """Partitions by client id, as the members report."""
        return {one.settings.client_id: one.member.owned for one in self.participants}

    def given(self) -> dict[str, frozenset[Partition]] | None:
        """Partitions by client id, as the leader assigned them by the broker; None unless the group is stable."""
        return assigned(self.describe())

    def describe(self) -> Any:
        """The group as the broker describes it; retried while the coordinator moves."""
        until = time.monotonic() + _TAKE_OVER_SECONDS
        while True:
            try:
                return self.asked.describe(timeout=5.0)
            except KafkaException:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def cross_rack(self) -> int:
        """How many partitions are read from another rack, by metadata and by what members report as owned."""
        racks = self.admin.racks()
        replicas = self.admin.replicas(self.topics)
        cross = 0
        for one in self.participants:
            for partition in one.member.owned:
                placed = replicas[partition]
                serving = placed.replicas if one.client in RACK_SENDERS else (placed.leader,)
                cross += one.rack not in {racks.get(broker) for broker in serving}
        return cross

    def complete(self) -> bool:
        """Whether each partition has exactly one owner."""
        owned = list(self.owned().values())
        return sum(map(len, owned)) == len(frozenset().union(*owned)) == len(self.admin.replicas(self.topics))

    def wait_settled(self, *, cross_rack: int | None = None, timeout: float = 90.0) -> float:
        """Wait until each partition has one owner and members own exactly what their leader assigned.

        If given, also until `cross_rack` partitions are read from another rack. Returns the seconds it took.

        Raises:
            SandboxError: it takes too long, or a member ended.
        """

        def settled() -> bool:
            for one in self.participants:
                if not one.member.running:
                    raise SandboxError(f"{one.member.name} has ended; it said:\n{one.member.complaints}")
            if not self.complete() or (cross_rack is not None and self.cross_rack() != cross_rack):
                return False
            return self.owned() == self.given()

        what = f"{self.group} has settled" + ("" if cross_rack is None else f" with {cross_rack} across racks")
        try:
            return wait_until(settled, what, timeout=timeout)
        except Exception as error:
            error.add_note(f"members have {self.owned()}, were given {self.given()}")
            raise

    # what happened

    def events(self) -> list[Event]:
        """All events of all members, by time; within one millisecond, `assigned` comes last."""
        events = [event for one in (*self.former, *self.participants) for event in one.member.events]
        return sorted(events, key=lambda event: (event.ms, event.kind == "assigned"))

    def rebalances(self) -> int:
        """How often the partitions of members changed; grows with each rebalance of an eager group."""
        return sum(event.kind in _PARTITION_EVENTS and bool(event.partitions) for event in self.events())

    def rebalanced_since(self, ms: int) -> list[str]:
        """What happened to members since then, without the records that they read: for a failure's text."""
        return [str(event) for event in self.events() if event.ms >= ms and event.kind not in {"records", "statistics"}]

    def longest_pause(self, *, since_ms: int) -> float:
        """The longest time in seconds, since then, in which no member read some partition."""
        pauses = longest_pauses(self.events(), since_ms=since_ms, until_ms=now_ms())
        return max(pauses.values(), default=float("inf"))

    def owned_twice_ever(self) -> list[tuple[Partition, int]]:
        """Partitions that two members owned at the same time, with that time, by the members' events."""
        holders: dict[Partition, set[str]] = {}
        twice = []
        events = [
            (event, one.settings.client_id) for one in (*self.former, *self.participants) for event in one.member.events
        ]
        for event, client_id in sorted(
            [*events, *self._ended], key=lambda entry: (entry[0].ms, entry[0].kind == "assigned")
        ):
            if event.kind == "closed":
                for holding in holders.values():
                    holding.discard(client_id)
            for partition in event.partitions if event.kind in _PARTITION_EVENTS else ():
                holding = holders.setdefault(partition, set())
                if event.kind == "assigned":
                    holding.add(client_id)
                    if len(holding) > 1:
                        twice.append((partition, event.ms))
                else:
                    holding.discard(client_id)
        return twice

    def check_owned_once(self) -> None:
        """Check that no partition ever had two owners at the same time.

        Raises:
            RecordsError: one had.
        """
        if twice := self.owned_twice_ever():
            raise RecordsError(f"owned twice: {twice}")

    def finish(self, *, timeout: float = 90.0) -> None:
        """Stop the feed, wait until all records are read, and check that none was lost or read twice.

        Raises:
            RecordsError: one was.
        """
        self._feeding.close()
        ends = self.ends()
        wait_until(
            lambda: all(
                partition in (read := readings(self.events())) and read[partition].last + 1 >= end
                for partition, end in ends.items()
            ),
            f"all records of {self.topics} are read",
            timeout=timeout,
        )
        found = readings(self.events())
        late = {partition: reading.first for partition, reading in found.items() if reading.first}
        missing = {partition: reading.missing for partition, reading in found.items() if reading.missing}
        twice = {partition for partition, reading in found.items() if reading.read_twice}
        if late or missing or twice:
            history = "\n".join(self._about({*late, *missing, *twice}))
            raise RecordsError(f"first read {late}, missing {missing}, read twice {sorted(twice)}:\n{history}")

    def _about(self, partitions: AbstractSet[Partition]) -> list[str]:
        """What members did with these partitions, and their errors: for a failure's text."""
        return [
            str(event)
            for event in self.events()
            if event.kind in {"error", "lost"} or not partitions.isdisjoint({*event.partitions, *(event.offsets or ())})
        ]

    def ends(self) -> dict[Partition, int]:
        """Return the end of each partition that has records."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "ends", "log_level": 0})
        try:
            return {
                (topic, number): end
                for topic, number in self.admin.replicas(self.topics)
                if (end := consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]) > 0
            }
        finally:
            consumer.close()

    # its end

    def __enter__(self) -> Self:
        """Return the scenario."""
        return self

    def __exit__(self, *_: object) -> None:
        """End agents, members and the feed, and delete the topics; print the agents' logs for pytest."""
        for agent in self._agents:
            agent.kill()
            sys.stderr.write(f"--- {agent.log.name}\n{tail(agent.log, 100)}\n")
        for one in self.participants:
            with suppress(OSError):
                one.member.stop(kill=True)
        self._feeding.close()
        for topic in self.topics:
            if self.admin.replicas([topic]):
                self.admin.delete_topic(topic)


def now_ms() -> int:
    """The wall clock in milliseconds, as in members' events."""
    return time.time_ns() // 1_000_000


def holds_for(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether a condition holds during all of this time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not holds():
            return False
        time.sleep(0.1)
    return True
