"""Runs one consumer group under load: its topic, its feeder, its members on real clients, and their histories."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException

from lab.sandbox.admin import Admin, wait_for, wait_until
from lab.sandbox.chaos.setup import FEED_SECONDS, MemberSpec, Setup
from lab.sandbox.contract import RACK_SENDERS
from lab.sandbox.errors import SandboxError
from lab.sandbox.feeder import Feeder
from lab.sandbox.group_client import AGENT, GroupClient, assigned
from lab.sandbox.history.history import History, read_history
from lab.sandbox.members.lines import MemberSettings, Partition, Recorder
from lab.sandbox.members.process import Event, Member, read_event


class Group:
    """A running group: its members, an extra one, and who is present; a context manager that starts and ends it."""

    def __init__(self, setup: Setup, *, bootstrap: str, admin: Admin, folder: Path) -> None:
        """Prepare; the folder is for histories, one file for each life of a member."""
        self.setup = setup
        self.name = setup.name
        self.specs = [
            MemberSpec(client=client, rack=rack, number=number)
            for number, (client, rack) in enumerate(setup.members, 1)
        ]
        self.extra = MemberSpec(client=setup.extra[0], rack=setup.extra[1], number=len(self.specs) + 1)
        self.present: dict[MemberSpec, Member] = {}
        self._bootstrap = bootstrap
        self._admin = admin
        self._folder = folder
        self._lives = 0
        self._recent: list[Member] = []
        self._recently_written: list[Event] = []
        self._written_bytes = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._written = folder / "written.jsonl"
        self._feeder = Feeder(
            bootstrap, {} if setup.idle else {setup.name: len(setup.placed)}, pause=FEED_SECONDS, history=self._written
        )
        self._operator = (folder / "operator.jsonl").open("a", encoding="utf-8")
        self._ending = ThreadPoolExecutor(max_workers=len(self.specs) + 2, thread_name_prefix=f"ending-{self.name}")
        self.asked = GroupClient(bootstrap, self.name)

    def start(self, spec: MemberSpec, *, assignor: str = "") -> Member:
        """Start a member; an assignor, if given, replaces the group's."""
        self._lives += 1
        settings = MemberSettings(
            bootstrap=self._bootstrap,
            group=self.name,
            topics=(self.name,),
            client_id=spec.name,
            rack=spec.rack if spec.client in RACK_SENDERS else None,
            assignors=(name,) if (name := assignor or self.setup.assignor) else (),
            instance_id=spec.name if self.setup.static and spec in self.specs else None,
            properties=self.setup.properties,
        )
        member = Member.on(spec.client, settings, history=self._folder / f"{spec.name}-{self._lives}.jsonl")
        self.present[spec] = member
        self._recent.append(member)
        return member

    def end(self, spec: MemberSpec, *, kill: bool = False) -> None:
        """End a member, in order or with SIGKILL."""
        self.present.pop(spec).stop(kill=kill)

    def leave(self, *, kill: bool = False) -> list[Future[None]]:
        """Begin to end all members at once, in order or with SIGKILL; each future is done when one has ended."""
        ending = list(self.present.values())
        self.present.clear()
        return [self._ending.submit(member.stop, kill=kill) for member in ending]

    def redeploy(self, spec: MemberSpec, *, kill: bool = False) -> None:
        """End a member and start a new one: in order, as a deployment does, or with SIGKILL."""
        self.end(spec, kill=kill)
        self.start(spec)

    def restart(self) -> None:
        """End all members in order, wait until the group is empty, and start them again."""
        specs = list(self.present)
        for future in self.leave():
            future.result()
        self.wait_state(("EMPTY", "DEAD"), "it is empty")
        for spec in specs:
            self.start(spec)

    def revive(self) -> list[str]:
        """Restart members that have ended by themselves, as an orchestrator does; return their last output."""
        ended = {spec: one for spec, one in self.present.items() if not one.running}
        for spec, member in ended.items():
            member.stop()
            self.start(spec)
        return [f"{spec.name} ended by itself: {one.complaints.splitlines()[-1]}" for spec, one in ended.items()]

    def come_or_go(self) -> str:
        """Start the extra member, or end it if it runs; return "joins" or "leaves"."""
        if self.extra in self.present:
            self.end(self.extra)
            return "leaves"
        self.start(self.extra)
        return "joins"

    def pause(self, spec: MemberSpec) -> None:
        """Suspend a member at any point (SIGSTOP)."""
        os.kill(self.present[spec].pid, signal.SIGSTOP)

    def resume(self, spec: MemberSpec) -> None:
        """Continue it (SIGCONT)."""
        with suppress(ProcessLookupError):
            os.kill(self.present[spec].pid, signal.SIGCONT)

    def describe(self) -> Any:
        """Return the group as its coordinator describes it; where none answers, a KafkaException is raised."""
        return self.asked.describe(timeout=3.0)

    def coordinator(self) -> int:
        """Return the broker that coordinates the group."""
        self.asked.forget()  # an older client has cached the answer
        return wait_for(lambda: int(self.describe().coordinator.id), f"a coordinator describes {self.name}")

    def has_dynamic_agent(self) -> bool:
        """Return whether an agent is in the group without an instance id."""
        return any(member.client_id == AGENT and not member.group_instance_id for member in self.describe().members)

    def wait_state(self, states: Sequence[str], what: str, *, timeout: float = 15.0) -> None:
        """Wait until the coordinator says that the group is in one of these states."""
        wait_until(lambda: self.describe().state.name in states, f"{self.name}: {what}", timeout=timeout, pause=0.03)

    def agrees(self) -> bool:
        """Return whether the group is stable and complete, and members own exactly what their leader assigned."""
        given = assigned(self.describe())
        owned = {spec.name: member.owned for spec, member in self.present.items()}
        everything = [partition for partitions in owned.values() for partition in partitions]
        return owned == given and len(everything) == len(set(everything)) == len(self.setup.placed)

    def described(self) -> str:
        """Return state and members by the coordinator, in words."""
        try:
            found = self.describe()
        except KafkaException as error:
            return f"not described: {error}"
        given = {m.client_id: sorted(p.partition for p in m.assignment.topic_partitions) for m in found.members}
        return f"{found.state.name}, given {given}"

    def trouble(self) -> str:
        """Return the state of the group in words, for errors."""
        owned = {spec.name: sorted(number for _, number in one.owned) for spec, one in self.present.items()}
        complaints = "; ".join(f"{spec.name}: {member.complaints}" for spec, member in self.present.items())
        return f"{self.name}: {self.described()}; members have {owned}; they said {complaints}"

    def generation(self) -> int:
        """Return the last generation that a member has recorded."""
        return max((event.generation for member in self.present.values() for event in member.events), default=-1)

    def note_offsets(self) -> dict[Partition, int]:
        """Record in the history the offsets that the coordinator has; return them."""
        found = self.asked.offsets()
        Recorder(self._operator).offsets("kept", found)
        return found

    def set_offsets(self, offsets: Mapping[Partition, int]) -> None:
        """Set the offsets of the group, which must have no members, and record them in the history."""
        self.asked.set_offsets(offsets)
        Recorder(self._operator).offsets("committed", offsets)

    def recent(self, since_ns: int) -> History:
        """Return the history since a time, which must not be before that of an earlier call."""
        with self._written.open("rb") as file:
            file.seek(self._written_bytes)
            text = file.read()
        lines = text[: text.rfind(b"\n") + 1]  # the last line may be incomplete
        self._written_bytes += len(lines)
        self._recently_written += map(read_event, lines.splitlines())
        self._recently_written = [event for event in self._recently_written if event.ns >= since_ns]
        present = set(self.present.values())
        self._recent = [one for one in self._recent if one in present or (one.events and one.events[-1].ns >= since_ns)]
        return History(
            members={
                f"{member.name}-{number}": tuple(event for event in member.events if event.ns >= since_ns)
                for number, member in enumerate(self._recent)
            },
            written=tuple(self._recently_written),
        )

    def reads_since(self, ns: int) -> frozenset[Partition]:
        """Return the partitions of which a member has read a record since then."""
        found: set[Partition] = set()
        for member in self.present.values():
            for event in takewhile(lambda event: event.ns >= ns, reversed(member.events)):
                if event.kind == "records" and event.begun_ns >= ns:
                    found |= event.partitions
        return frozenset(found)

    def finish(self) -> History:
        """Drain the group, and return its whole history."""
        self.drain()
        return self.history()

    def drain(self, *, timeout: float = 60.0) -> None:
        """Stop the load, wait until all records are read, end the members in order."""
        self._feeder.finish(timeout=timeout)
        ends: dict[Partition, int] = {}
        for event in read_history([self._written]).written:
            for partition in event.partitions:
                ends[partition] = max(ends.get(partition, -1), event.last)
        # reads of ended members are not needed: the present members read to the end
        wait_until(
            lambda: all(
                max((member.last_read(partition) for member in self.present.values()), default=-1) >= last
                for partition, last in ends.items()
            ),
            f"everything written to {self.name} is read",
            timeout=timeout,
        )
        for future in self.leave():
            future.result()

    def history(self) -> History:
        """Return the whole history of the group."""
        return read_history(sorted(self._folder.glob("*.jsonl")))

    def __enter__(self) -> Self:
        """Create the topic, start to feed it, start the members."""
        self._admin.create_topic(self.name, self.setup.placed)
        self._feeder.__enter__()
        if self.setup.idle:  # the coordinator may not know the topic yet
            first = {(self.name, number): 0 for number in range(len(self.setup.placed))}
            wait_for(lambda: self.set_offsets(first), f"the offsets of {self.name} are set")
        for spec in self.specs:
            self.start(spec)
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the members, and stop the load."""
        for member in self.present.values():
            with suppress(OSError, SandboxError):
                member.stop(kill=True)
        self._feeder.__exit__()
        self._ending.shutdown()
        self._operator.close()


def now_ns() -> int:
    """Return the time of the monotonic clock, which all processes of this machine share."""
    return time.monotonic_ns()
