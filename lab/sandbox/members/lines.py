"""The common parts of the member programs: their arguments, and printing events as JSON lines."""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TextIO

_GATHER_SECONDS: Final = 0.1

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """One member's arguments; without assignors it offers the client's default.

    Properties are client settings that are added or replaced, in Kafka's names.
    """

    bootstrap: str
    group: str
    topics: tuple[str, ...]
    client_id: str
    rack: str | None = None
    assignors: tuple[str, ...] = ()
    instance_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def _comma_separated(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key, value


def parse(description: str) -> MemberSettings:
    """Read a member's command line."""
    names = "names, separated by commas"
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap", required=True, help="bootstrap.servers")
    parser.add_argument("--group", required=True, help="group.id")
    parser.add_argument("--topics", required=True, type=_comma_separated, help=names)
    parser.add_argument("--client-id", required=True, help="client.id")
    parser.add_argument("--rack", help="client.rack")
    parser.add_argument("--assignor", type=_comma_separated, default=(), help=names)
    parser.add_argument("--instance-id", help="group.instance.id")
    parser.add_argument("--property", type=_pair, action="append", default=[], help="key=value, in Kafka's names")
    given = vars(parser.parse_args())
    assignors, properties = given.pop("assignor"), dict(given.pop("property"))
    return MemberSettings(**given, assignors=assignors, properties=properties)


def command_line(settings: MemberSettings) -> list[str]:
    """Return the arguments that `parse` reads these settings from; every member program takes them, Java's too."""
    line = ["--bootstrap", settings.bootstrap, "--group", settings.group]
    line += ["--topics", ",".join(settings.topics), "--client-id", settings.client_id]
    if settings.rack is not None:
        line += ["--rack", settings.rack]
    if settings.assignors:
        line += ["--assignor", ",".join(settings.assignors)]
    if settings.instance_id is not None:
        line += ["--instance-id", settings.instance_id]
    for key, value in settings.properties.items():
        line += ["--property", f"{key}={value}"]
    return line


def ended_by_signal() -> threading.Event:
    """Return what is set as soon as SIGTERM or SIGINT asks this process to end."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    return ended


def python_settings(settings: MemberSettings, assignors: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of a Python client's consumer.

    Properties in Kafka's names have underscores there, and their numbers are numbers. The client's default assignor is
    range.
    """
    arguments: dict[str, object] = {
        "bootstrap_servers": settings.bootstrap.split(","),
        "group_id": settings.group,
        "client_id": settings.client_id,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 1000,
        "partition_assignment_strategy": [assignors[name] for name in settings.assignors or ("range",)],
    }
    if settings.rack is not None:
        arguments["client_rack"] = settings.rack
    if settings.instance_id is not None:
        arguments["group_instance_id"] = settings.instance_id
    for key, value in settings.properties.items():
        plain: str | int | bool = value
        if value.lower() in {"true", "false"}:
            plain = value.lower() == "true"
        elif value.lstrip("-").isdigit():
            plain = int(value)
        arguments[key.replace(".", "_")] = plain
    return arguments


class Throttle:
    """Bounds how many records a member reads in a second, by a file with that number, which may change."""

    def __init__(self, path: str) -> None:
        """Read the bound from this file; without one there is none."""
        self._path = Path(path) if path else None
        self._bound = float("inf")
        self._checked_at = float("-inf")
        self._free_at = 0.0

    def waits(self) -> bool:
        """Return whether no record may be read yet; after a tenth of a second, so that heartbeats go on."""
        now = time.monotonic()
        if self._path is not None and now - self._checked_at > _GATHER_SECONDS:
            self._checked_at, self._bound = now, float(self._path.read_text(encoding="utf-8"))
        if now >= self._free_at:
            return False
        time.sleep(min(self._free_at - now, _GATHER_SECONDS))
        return True

    def read(self) -> None:
        """Count a record."""
        self._free_at = max(self._free_at, time.monotonic() - _GATHER_SECONDS) + 1.0 / self._bound


class Recorder:
    """Prints a member's events; may be used from several threads.

    Reads of consecutive offsets are gathered for up to a tenth of a second and printed before any other event.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        gathers: str = "records",
        printed: Callable[[Partition, int], None] = lambda _partition, _next: None,
        member: str = "",
    ) -> None:
        """Prepare.

        Args:
            out: where lines go; standard output if not given.
            gathers: the event name of the lines of gathered offsets.
            printed: called after a line of gathered offsets with its partition and the offset after its last one. Only
                printed offsets may be committed, else a member killed in between would seem to have skipped them.
            member: the member's name in each line, where several members share a process.
        """
        self._member = {"member": member} if member else {}
        self._out = out or sys.stdout
        self._gathers = gathers
        self._printed = printed
        self._lock = threading.RLock()
        self._runs: dict[Partition, list[int]] = {}  # first, last, when each was read
        self._flushed = time.monotonic()
        self._generation = -1

    def event(self, kind: str, **fields: object) -> None:
        """Print an event, after the reads that came before it."""
        with self._lock:
            self.flush()
            self._print(kind, fields)

    def partitions(self, kind: str, partitions: Iterable[Partition], *, generation: int = -1) -> None:
        """Print an event with partitions, and the generation if the client reports it."""
        with self._lock:
            self._generation = max(self._generation, generation)
            known = {} if generation < 0 else {"generation": generation}
            self.event(kind, partitions=sorted([topic, partition] for topic, partition in partitions), **known)

    def generation(self, now: int) -> None:
        """Print the client's present generation if it is newer than the last printed one."""
        with self._lock:
            if now > self._generation:
                self._generation = now
                self.event("joined", generation=now)

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Print offsets that a coordinator has confirmed: for each partition the next to be read."""
        if offsets:
            self.offsets("committed", offsets)

    def offsets(self, kind: str, offsets: Mapping[Partition, int]) -> None:
        """Print an event with offsets, also if there are none."""
        self.event(kind, offsets=sorted([topic, number, at] for (topic, number), at in offsets.items()))

    def read(self, topic: str, partition: int, offset: int) -> None:
        """Record the read of one record."""
        with self._lock:
            now = time.monotonic_ns()
            run = self._runs.get((topic, partition))
            if run is not None and run[1] + 1 == offset and now - run[3] < _GATHER_SECONDS * 1e9:
                run[1], run[3] = offset, now
                return
            if run is not None:
                self.flush()
            self._runs[topic, partition] = [offset, offset, now, now]

    def flush_if_due(self) -> None:
        """Print the gathered reads when they have waited long enough."""
        if time.monotonic() - self._flushed >= _GATHER_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Print the gathered reads."""
        with self._lock:
            self._flushed = time.monotonic()
            runs, self._runs = self._runs, {}
            for (topic, partition), (first, last, begun, ended) in runs.items():
                fields = {"topic": topic, "partition": partition, "first": first, "last": last}
                count, times = last - first + 1, {"begun_ns": begun, "ended_ns": ended}
                self._print(self._gathers, {**fields, "count": count, **times})
                self._printed((topic, partition), last + 1)

    def _print(self, kind: str, fields: Mapping[str, object]) -> None:
        line = {"event": kind, "ms": time.time_ns() // 1_000_000, "ns": time.monotonic_ns(), **self._member, **fields}
        self._out.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._out.flush()


class _TopicPartition(Protocol):
    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


class RebalanceLines:
    """Prints the rebalance events of a Python client, to be mixed into its listener."""

    def __init__(self, recorder: Recorder, generation: Callable[[], int]) -> None:
        self._recorder = recorder
        self._generation = generation

    def on_partitions_assigned(self, assigned: Iterable[_TopicPartition]) -> None:
        """Print new partitions; in an eager group all that the member has now."""
        self._print("assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[_TopicPartition]) -> None:
        """Print revoked partitions, whose offsets are already committed."""
        self._print("revoked", revoked)

    def on_partitions_lost(self, lost: Iterable[_TopicPartition]) -> None:
        """Print lost partitions."""
        self._print("lost", lost)

    def _print(self, kind: str, partitions: Iterable[_TopicPartition]) -> None:
        named = [(partition.topic, partition.partition) for partition in partitions]
        self._recorder.partitions(kind, named, generation=self._generation())
