"""Starts groups while the agent waits, each with a comparison group without an agent: who leads, and how soon."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.chaos.agents import POLICY
from lab.sandbox.clients.results import InitialRebalances, Variant
from lab.sandbox.contract import RACK_NAMES, RACK_SENDERS, RACKS_BY_CLIENT_ID
from lab.sandbox.errors import SandboxError
from lab.sandbox.feeder import Feeder
from lab.sandbox.history.checker import check
from lab.sandbox.history.history import Bounds, History, Kind, read_history
from lab.sandbox.members.lines import MemberSettings, Partition
from lab.sandbox.members.process import Event, Member

NAMES: Final = RACK_NAMES
WRONG: Final = frozenset({Kind.OWNED_TWICE, Kind.SKIPPED, Kind.READ_AGAIN})
ANY_TIME: Final = Bounds(unowned=float("inf"), stop=float("inf"))
AGENT_SETTINGS: Final = {
    "racks.client_ids": RACKS_BY_CLIENT_ID,
    "events.path": "memory",
    **POLICY,
    "log.level": "info",
}
_CROWDS: Final = frozenset({"java", "java-3.4", "java-2.8", "confluent"})
"""Clients whose programs run several members in one process."""
_APART_SECONDS: Final = 0.3
"""Between the starts of two processes of a group: as far as the containers of a deployment are apart, or less."""
_QUIET: Final = {"statistics.interval.ms": "0", "auto.commit.interval.ms": "5000"}
"""librdkafka's defaults: with a timer that ends each second older versions join again sooner than in applications."""
_PROPERTIES: Final = {"confluent": _QUIET, "confluent-2.13": _QUIET}
_ASSIGNED_SECONDS: Final = 90.0
_FEED_SECONDS: Final = 0.2


def findings(history: History) -> tuple[str, ...]:
    """Return what was skipped, owned twice, or read again below a commit."""
    return tuple(str(finding) for finding in check(history, ANY_TIME) if finding.kind in WRONG)


def first_assignment(events: Iterable[Event], partitions: int) -> float:
    """Return the seconds from a group's first start of a member until so many partitions had an owner, or infinity."""
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
    """Return the first generation that one of these members was in; 1 where their client does not report any."""
    return min((event.generation for event in events if event.generation > 0), default=1)


@contextmanager
def waiting_agent(bootstrap: str, groups: Sequence[str], log: Path, election: str) -> Iterator[AgentProcess]:
    """Yield an agent that has polled all of these groups, which have no members yet."""
    settings = {**AGENT_SETTINGS, "election.group": election}
    with AgentProcess(bootstrap, groups=groups, log=log, settings=settings) as agent:
        for group in groups:
            agent.wait(
                lambda group=group: agent.role(group) in {"waiting", "leading"},  # type: ignore[misc]
                f"the agent knows {group}",
            )
        yield agent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A group that was led and the one beside it."""

    led: bool
    led_seconds: float
    alone_seconds: float
    findings: tuple[str, ...]
    logged: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """The groups of one measurement: `members` on one client read a topic of so many partitions."""

    variant: Variant
    members: int
    bootstrap: str
    topic: str
    partitions: int
    folder: Path

    def start(self, group: str) -> list[Member]:
        """Start a group; return its processes."""
        client, assignor = self.variant.client, self.variant.assignor
        racks = [NAMES[number % len(NAMES)] for number in range(self.members)]
        names = [f"{client}-{number}-{rack}" for number, rack in enumerate(racks, 1)]
        lives = [(",".join(names), ",".join(racks))] if client in _CROWDS else zip(names, racks, strict=True)
        (self.folder / group).mkdir()
        processes = []
        for number, (name, rack) in enumerate(lives, 1):
            settings = MemberSettings(
                bootstrap=self.bootstrap,
                group=group,
                topics=(self.topic,),
                client_id=name,
                rack=rack if client in RACK_SENDERS else None,
                assignors=(assignor,) if assignor else (),
                properties=_PROPERTIES.get(client, {}),
            )
            history = self.folder / group / f"member-{number}.jsonl"
            processes.append(Member.on(client, settings, history=history))
            time.sleep(_APART_SECONDS)
        return processes

    def pair(self, agent: AgentProcess, group: str) -> _Pair:
        """Start a group that the agent waits for, and one that it does not know; return how they started."""
        names = (group, group.replace("-led-", "-alone-"))
        led, alone = groups = [self.start(name) for name in names]
        try:
            seconds = [self._assigned(name, processes) for name, processes in zip(names, groups, strict=True)]
            time.sleep(1.0)  # a second rebalance would have started by now
            ended = [f"{process.name} ended by itself" for process in led if not process.running]
        finally:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(Member.stop, chain(led, alone)))
        plans = agent.events("plan-sent", group=group)
        found = findings(read_history(sorted((self.folder / group).glob("*.jsonl"))))
        return _Pair(
            led=bool(plans) and int(plans[0]["generation"]) == first_generation(_events(led)),
            led_seconds=seconds[0],
            alone_seconds=seconds[1],
            findings=tuple(f"{group}: {one}" for one in (*found, *ended)),
            logged=_errors(led) - _errors(alone),
        )

    def _assigned(self, group: str, processes: Sequence[Member]) -> float:
        """Wait until all partitions have an owner; return the seconds from the first member's start."""

        def seconds() -> float:
            return first_assignment(_events(processes), self.partitions)

        try:
            what = f"{group} has its partitions"
            wait_until(lambda: seconds() < float("inf"), what, timeout=_ASSIGNED_SECONDS, pause=0.25)
        except SandboxError as error:
            complaints = "; ".join(process.complaints for process in processes)
            raise SandboxError(f"{error}; members said {complaints}") from None
        return seconds()


def run_initial_rebalances(  # noqa: PLR0913 - one parameter for each part of a measurement
    variant: Variant, *, members: int, tries: int, at_once: int, bootstrap: str, admin: Admin, folder: Path
) -> InitialRebalances:
    """Start `tries` groups of so many members while an agent waits for them, each beside a group without an agent."""
    topic, partitions = f"initial-{members}", 3 * members if members <= len(NAMES) else 2 * members
    if not admin.replicas([topic]):
        admin.create_topic(topic, [[number % len(NAMES) + 1] for number in range(partitions)])
    folder.mkdir(parents=True, exist_ok=True)
    mark = f"{variant.name}-{members}-{time.time_ns() // 1_000_000 % 10**8}"
    led = [f"{mark}-led-{number}" for number in range(1, tries + 1)]
    trial = _Trial(
        variant=variant, members=members, bootstrap=bootstrap, topic=topic, partitions=partitions, folder=folder
    )
    with (
        Feeder(bootstrap, {topic: partitions}, pause=_FEED_SECONDS),
        waiting_agent(bootstrap, led, folder / f"{mark}-agent.log", f"samerack-{mark}") as agent,
        ThreadPoolExecutor(at_once) as pool,
    ):
        found = list(pool.map(partial(trial.pair, agent), led))
    late = [pair.led_seconds - pair.alone_seconds for pair in found]
    return InitialRebalances(
        client=variant.client,
        assignor=variant.assignor,
        members=members,
        tries=tries,
        led=sum(pair.led for pair in found),
        with_seconds=round(statistics.median(pair.led_seconds for pair in found), 2),
        without_seconds=round(statistics.median(pair.alone_seconds for pair in found), 2),
        late_seconds=round(max(late), 2),
        findings=tuple(chain.from_iterable(pair.findings for pair in found)),
        logged=tuple(sorted(frozenset[str]().union(*(pair.logged for pair in found)))),
    )


def _events(processes: Iterable[Member]) -> Iterator[Event]:
    """Yield the events of a group, each with a member's name, also where a process has only one member."""
    for number, process in enumerate(processes):
        for event in process.events:
            yield event if event.member else replace(event, member=f"member-{number}")


def _errors(processes: Iterable[Member]) -> frozenset[str]:
    return frozenset(event.message for event in _events(processes) if event.kind == "error")
