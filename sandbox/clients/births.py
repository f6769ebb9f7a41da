"""Starts groups while the agent waits, each with a comparison group without an agent: who leads, and how soon."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.chaos.setup import TELLING
from sandbox.clients.model import Births, Variant
from sandbox.contract import RACKS
from sandbox.errors import SandboxError
from sandbox.feeder import Feeder
from sandbox.history.checker import check
from sandbox.history.model import Bounds, Kind
from sandbox.history.reading import read_history
from sandbox.members.lines import MemberSettings, Partition
from sandbox.members.process import Event, Member

NAMES: Final = tuple(rack for rack in RACKS.values() if rack is not None)
WRONG: Final = frozenset({Kind.OWNED_TWICE, Kind.SKIPPED, Kind.READ_AGAIN})
ANY_TIME: Final = Bounds(unowned=float("inf"), stop=float("inf"))
AGENT_SETTINGS: Final = {
    "racks.client_ids": {f"*-{rack}": rack for rack in NAMES},
    "events.path": "memory",
    "policy.settling_seconds": 1,
    "policy.burst": 20,
    "policy.refill_seconds": 5,
    "policy.max_per_hour": 1000,
    "log.level": "info",
}
_CROWDS: Final = frozenset({"java", "java-3.4", "java-2.8", "confluent"})
"""Clients whose programs run several members in one process."""
_ASSIGNED_SECONDS: Final = 90.0
_FEED_SECONDS: Final = 0.2


def first_assignment(events: Iterable[Event], partitions: int) -> float:
    """Returns the seconds from the first member's start until all partitions had an owner; infinite if never.

    Args:
        events: of all members of one group.
        partitions: number of partitions of its topics.
    """
    begun: int | None = None
    owned: dict[str, set[Partition]] = {}
    for event in sorted(events, key=lambda one: (one.ns, one.kind == "assigned")):
        has = owned.setdefault(event.member, set())
        if event.kind == "started" and begun is None:
            begun = event.ns
        elif event.kind == "assigned":
            has |= event.partitions
        elif event.kind in {"revoked", "lost"}:
            has -= event.partitions
        if begun is not None and len(set().union(*owned.values())) == partitions:
            return (event.ns - begun) / 1e9
    return float("inf")


def first_generation(events: Iterable[Event]) -> int:
    """Returns the first generation that one of these members was in; 1 where their client does not report any."""
    return min((event.generation for event in events if event.generation > 0), default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    name: str
    processes: Sequence[Member]
    folder: Path

    def events(self) -> list[Event]:
        return list(chain.from_iterable(process.events for process in self.processes))


@contextmanager
def waiting_agent(bootstrap: str, groups: Sequence[str], log: Path, election: str) -> Iterator[AgentProcess]:
    """Yields an agent that has looked at all of these groups, which have no members yet."""
    settings = {**AGENT_SETTINGS, "election.group": election}
    with AgentProcess(bootstrap, groups=groups, log=log, settings=settings) as agent:
        for group in groups:
            agent.wait(
                lambda group=group: agent.role(group) in {"waiting", "leading"},  # type: ignore[misc]
                f"the agent knows {group}",
            )
        yield agent


def birth_topic(admin: Admin, members: int) -> tuple[str, int]:
    """Returns name and number of partitions of the topic for groups of this size; creates it if it is missing."""
    topic, count = f"births-{members}", 3 * members if members <= len(NAMES) else 2 * members
    if not admin.replicas([topic]):
        admin.create_topic(topic, [[number % len(NAMES) + 1] for number in range(count)])
    return topic, count


def run_births(  # noqa: PLR0913 - one parameter for each part of a measurement
    variant: Variant,
    *,
    members: int,
    tries: int,
    at_once: int,
    bootstrap: str,
    admin: Admin,
    folder: Path,
) -> Births:
    """Starts `tries` groups while an agent waits for them, each together with a group without an agent.

    Args:
        variant: of all members.
        members: of each group.
        tries: number of groups.
        at_once: how many pairs of groups run at a time.
        bootstrap: `bootstrap.servers`.
        admin: the cluster's administration.
        folder: for histories and logs.

    Raises:
        SandboxError: A group does not get its partitions, or does not become empty again.
    """
    topic, partitions = birth_topic(admin, members)
    folder.mkdir(parents=True, exist_ok=True)
    mark = f"{variant.name}-{members}-{time.time_ns() // 1_000_000 % 10**8}"
    led = [f"{mark}-led-{number}" for number in range(1, tries + 1)]
    begin = _Starter(variant, members, bootstrap, topic, folder)
    found: list[_Pair] = []
    log = folder / f"{mark}-agent.log"
    with (
        Feeder(bootstrap, {topic: partitions}, pause=_FEED_SECONDS),
        waiting_agent(bootstrap, led, log, f"samerack-{mark}") as agent,
        ThreadPoolExecutor(at_once) as pool,
    ):
        found = list(pool.map(lambda group: _pair(begin, group, partitions, agent), led))
    late = [pair.led_seconds - pair.alone_seconds for pair in found]
    return Births(
        client=variant.client,
        assignor=variant.assignor,
        members=members,
        tries=tries,
        led=sum(pair.led for pair in found),
        with_seconds=round(statistics.median(pair.led_seconds for pair in found), 2),
        without_seconds=round(statistics.median(pair.alone_seconds for pair in found), 2),
        late_seconds=round(max(late), 2),
        early_seconds=round(max(-one for one in late), 2),
        findings=tuple(chain.from_iterable(pair.findings for pair in found)),
        logged=tuple(sorted(frozenset[str]().union(*(pair.logged for pair in found)))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    led: bool
    led_seconds: float
    alone_seconds: float
    findings: tuple[str, ...]
    logged: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Starter:
    variant: Variant
    members: int
    bootstrap: str
    topic: str
    folder: Path

    def __call__(self, group: str) -> _Group:
        racks = [NAMES[number % len(NAMES)] for number in range(self.members)]
        names = [f"{self.variant.client}-{number}-{rack}" for number, rack in enumerate(racks, 1)]
        lives = (
            [(",".join(names), ",".join(racks))] if self.variant.client in _CROWDS else zip(names, racks, strict=True)
        )
        folder = self.folder / group
        folder.mkdir()
        processes = [
            Member.on(
                self.variant.client,
                MemberSettings(
                    bootstrap=self.bootstrap,
                    group=group,
                    topics=(self.topic,),
                    client_id=name,
                    rack=rack if self.variant.client in TELLING else None,
                    assignors=(self.variant.assignor,) if self.variant.assignor else (),
                ),
                history=folder / f"member-{number}.jsonl",
            )
            for number, (name, rack) in enumerate(lives, 1)
        ]
        return _Group(name=group, processes=processes, folder=folder)


def _pair(begin: _Starter, group: str, partitions: int, agent: AgentProcess) -> _Pair:
    groups = [begin(group), begin(group.replace("-led-", "-alone-"))]
    seconds: list[float] = []
    try:
        for one in groups:
            what = f"{one.name} has its partitions"

            def assigned(one: _Group = one) -> bool:
                return first_assignment(_named(one), partitions) < float("inf")

            try:
                wait_until(assigned, what, timeout=_ASSIGNED_SECONDS, pause=0.25)
            except SandboxError as error:
                said = "; ".join(process.complaints for process in one.processes)
                raise SandboxError(f"{error}; members said {said}") from None
            seconds.append(first_assignment(_named(one), partitions))
        time.sleep(1.0)  # a second rebalance would have started by now
        ended = [process.name for process in groups[0].processes if not process.running]
    finally:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(Member.stop, chain.from_iterable(one.processes for one in groups)))
    plans = agent.events("plan-sent", group=group)
    return _Pair(
        led=bool(plans) and int(plans[0]["generation"]) == first_generation(groups[0].events()),
        led_seconds=seconds[0],
        alone_seconds=seconds[1],
        findings=(*_findings(groups[0]), *(f"{group}: {name} ended by itself" for name in ended)),
        logged=_errors(groups[0]) - _errors(groups[1]),
    )


def _named(group: _Group) -> Iterator[Event]:
    """Yields the events of a group, each with a member's name, also where a process has only one member."""
    for number, process in enumerate(group.processes):
        for event in process.events:
            yield event if event.member else replace(event, member=f"member-{number}")


def _findings(led: _Group) -> Iterator[str]:
    history = read_history(sorted(led.folder.glob("*.jsonl")))
    yield from (f"{led.name}: {finding}" for finding in check(history, ANY_TIME) if finding.kind in WRONG)


def _errors(group: _Group) -> frozenset[str]:
    return frozenset(event.message for event in group.events() if event.kind == "error")
