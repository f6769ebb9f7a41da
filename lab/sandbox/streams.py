"""A stateful Kafka Streams application of several instances, each in a rack: what they run, receive and write.

The program is `StreamsLedger` in tests/java/consumer. With exactly-once processing, its output has one record for each
that it has read, in order: whatever is lost, doubled or computed on other state shows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Consumer, TopicPartition

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.errors import SandboxError
from lab.sandbox.jvm import KAFKA_VERSION, own_jar
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Event, Member
from lab.sandbox.members.programs import java_command

CLASS: Final = "io.samerack.streams.AgentTaskAssignor"
"""samerack's task assignor."""
_CLASSIC: Final = {
    "session.timeout.ms": "6000",  # an instance that closes stays a member until then
    "heartbeat.interval.ms": "1000",
    "rack.aware.assignment.tags": "zone",
}
"""Brokers have these where they assign."""
_MAX_SECONDS: Final = 60.0
"""How long the comparison of output and input may take."""


def jar() -> Path:
    """Return the task assignor's jar."""
    return own_jar("samerack-streams-assignor.jar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """What one instance runs."""

    active: frozenset[str]
    standby: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One process of the application: its name, its rack, and how many instances it has."""

    name: str
    rack: str
    instances: int = 1


def runs(member: Member) -> bool:
    """Return whether a process says that its instances are running."""
    return [event.message for event in member.events if event.kind == "state"][-1:] == ["RUNNING"]


class StreamsApplication:
    """The processes of one application; a context manager that ends them."""

    def __init__(  # noqa: PLR0913 - one parameter for each part of an application
        self,
        places: Sequence[Place],
        *,
        bootstrap: str,
        application: str,
        topic: str,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        heap_megabytes: int = 256,
        options: Sequence[str] = (),
        version: str = KAFKA_VERSION,
    ) -> None:
        """Prepare; nothing is started yet.

        It reads a topic and writes to `APPLICATION-output`, which must exist; its state is in the folder. Properties
        are Kafka Streams' own, for every instance, and options those of the JVMs. `version` is of Kafka's jars in the
        cache; `streams-3.9` has only Kafka Streams.
        """
        self._version = version
        self.places = {place.name: place for place in places}
        self.application = application
        self.topic = topic
        self.properties = dict(properties or {})
        self.bootstrap = bootstrap
        self._folder = folder
        self._options = (f"-Xmx{heap_megabytes}m", *options)
        self._running: dict[str, Member] = {}
        self._former: list[Member] = []

    @property
    def output(self) -> str:
        """The topic that it writes to."""
        return f"{self.application}-output"

    def start(self, name: str, **more: str) -> None:
        """Start a process; properties have `_` for `.`, and stand beside those of all."""
        place = self.places[name]
        ids = [f"{name}-{number}" for number in range(place.instances)]
        properties = {
            "output.topic": self.output,
            "state.dir": str(self._folder),
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": "200",
            "client.tag.zone": place.rack,
            **({} if self.properties.get("group.protocol") == "streams" else _CLASSIC),
            **self.properties,
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        settings = MemberSettings(
            bootstrap=self.bootstrap,
            group=self.application,
            topics=(self.topic,),
            client_id=",".join(ids),
            rack=place.rack,
            properties=properties,
        )
        line = java_command(settings, main="StreamsLedger", jars=(jar(),), options=self._options, version=self._version)
        self._running[name] = Member(line, name=name)

    def start_all(self, **more: str) -> None:
        """Start every process."""
        for name in self.places:
            self.start(name, **more)

    def stop(self, name: str, *, kill: bool = False) -> None:
        """End a process."""
        member = self._running.pop(name)
        member.stop(kill=kill)
        self._former.append(member)

    def events(self, kind: str) -> list[Event]:
        """Return the events of one kind of all running processes."""
        return [event for member in self._running.values() for event in member.events if event.kind == kind]

    def errors(self) -> str:
        """Return what the running processes say went wrong."""
        return "\n".join(f"{name}: {member.complaints}" for name, member in self._running.items())

    def racks(self) -> dict[int, str]:
        """Return the rack of each running process, by process id."""
        return {member.pid: self.places[name].rack for name, member in self._running.items()}

    def tasks(self) -> dict[str, Tasks]:
        """Return what each instance runs now."""
        found = {}
        for name, member in self._running.items():
            for number in range(self.places[name].instances):
                found[f"{name}-{number}"] = Tasks(active=frozenset(), standby=frozenset())
            for event in member.events:
                if event.kind == "tasks":
                    active, _, standby = event.message.partition(";")
                    found[event.member or f"{name}-0"] = Tasks(active=_names(active), standby=_names(standby))
        return found

    def complete(self, tasks: int, *, standbys: int) -> bool:
        """Return whether every task runs once, with all its standbys elsewhere, and every instance is running."""
        now = self.tasks().values()
        active = [task for one in now for task in one.active]
        standby = [task for one in now for task in one.standby]
        apart = all(not one.active & one.standby for one in now)
        counted = len(active) == len(set(active)) == tasks and len(standby) == tasks * standbys
        return apart and counted and self._all_run()

    def runs_each(self, tasks: int) -> bool:
        """Return whether every task runs somewhere and every instance is running.

        Kafka Streams 3.9 goes on listing some tasks in an instance that has given them away.
        """
        return len({task for one in self.tasks().values() for task in one.active}) == tasks and self._all_run()

    def _all_run(self) -> bool:
        return all(map(runs, self._running.values()))

    def wait_complete(self, tasks: int, *, standbys: int, timeout: float = 90.0) -> float:
        """Wait until it is complete, and unchanged two seconds later; return the seconds until it was complete."""
        begun = time.monotonic()
        since, before = begun, None

        def settled() -> bool:
            nonlocal since, before
            if failed := self.events("error"):
                raise SandboxError(f"an instance failed: {failed[0].message}\n{self.errors()}")
            now = self.tasks() if self.complete(tasks, standbys=standbys) else None
            if now is None or now != before:
                since, before = time.monotonic(), now
            return now is not None and time.monotonic() - since >= 2

        try:
            wait_until(settled, f"{tasks} tasks and their {standbys} standbys run", timeout=timeout, pause=0.1)
        except SandboxError as error:
            raise SandboxError(f"{error}\n{_summary(self.tasks())}\n{self.errors()}") from None
        return since - begun

    def crossing(self, racks: Mapping[str, frozenset[str]], *, standby: bool = False) -> int:
        """Return how many tasks read their source from another rack; with `standby`, how many standbys their changelog.

        `racks` are those of the replicas by task.
        """
        return sum(
            self.places[instance.rpartition("-")[0]].rack not in racks[task]
            for instance, tasks in self.tasks().items()
            for task in (tasks.standby if standby else tasks.active)
        )

    def received(self, read: str) -> dict[str, Counter[int]]:
        """Return the bytes of `sources` or `changelogs` by process and broker, as the consumers' own metrics count."""
        found: dict[str, Counter[int]] = {}
        for name, member in self._running.items():
            latest = {
                event.member: event.brokers
                for event in member.events
                if event.kind == "statistics" and event.message == read and event.brokers is not None
            }
            found[name] = Counter()
            for brokers in latest.values():
                found[name].update(brokers)
        return found

    def counts(self) -> dict[str, float]:
        """Return what samerack's assignor counts in all processes, also former ones: sums, and the longest times."""
        found: dict[str, float] = {}
        for member in (*self._former, *self._running.values()):
            latest = [event.message for event in member.events if event.kind == "counted"][-1:]
            for pair in " ".join(latest).split():
                name, _, text = pair.partition("=")
                value = float(text)
                longest = name.endswith("Milliseconds")
                found[name] = max(found.get(name, 0), value) if longest else found.get(name, 0) + value
        return found

    def __enter__(self) -> Self:
        """Return itself; nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all processes: their last commits are not needed."""
        for member in self._running.values():
            with suppress(OSError):
                member.stop(kill=True)


def _names(text: str) -> frozenset[str]:
    return frozenset(part for part in text.split(",") if part)


def _summary(tasks: Mapping[str, Tasks]) -> str:
    return "\n".join(
        f"{name}: active {sorted(one.active)}, standby {sorted(one.standby)}" for name, one in tasks.items()
    )


# what it has written


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What an application has written, compared with its input, by numbers of records.

    Miscounted are those whose count is not their number in the partition: they were computed on other state.
    """

    records: int
    lost: int
    doubled: int
    miscounted: int


def compare(application: StreamsApplication, admin: Admin) -> Output:
    """Compare the output with the input, once the application has read all of it; nothing may be sent any more."""
    ends = {partition: end for (_, partition), end in admin.ends([application.topic]).items()}
    reader = Consumer(
        {
            "bootstrap.servers": application.bootstrap,
            "group.id": f"{application.application}-verify",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    seen: dict[int, list[tuple[int, int]]] = {partition: [] for partition in ends}
    wanted, deadline = sum(ends.values()), time.monotonic() + _MAX_SECONDS
    try:
        reader.assign([TopicPartition(application.output, part, 0) for _, part in admin.replicas([application.output])])
        quiet = time.monotonic()
        # beyond the wanted number, two seconds without a record show that none is doubled
        while sum(map(len, seen.values())) < wanted or time.monotonic() - quiet < 2:
            if time.monotonic() > deadline:
                break
            for message in reader.consume(5000, 0.5):
                if message.error() is None:
                    quiet = time.monotonic()
                    partition = int(bytes(message.key() or b"").rpartition(b"-")[2])
                    count, _, offset = bytes(message.value() or b"").partition(b" ")
                    seen[partition].append((int(count), int(offset)))
    finally:
        reader.close()
    lost = sum(end - len({offset for _, offset in seen[part]}) for part, end in ends.items())
    doubled = sum(len(found) - len({offset for _, offset in found}) for found in seen.values())
    miscounted = sum(count != offset + 1 for found in seen.values() for count, offset in found)
    return Output(records=wanted, lost=lost, doubled=doubled, miscounted=miscounted)
