"""Runs a group member as a separate process and reads the JSON lines that it prints."""

import json
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, Self

from lab.sandbox.errors import SandboxError
from lab.sandbox.members.lines import MemberSettings, Partition
from lab.sandbox.members.programs import CLIENTS
from lab.sandbox.processes import PATIENCE, end, spawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a member, whose fields `lab.sandbox.members` explains; `kind` is the line's `event`.

    `partitions` are those assigned, revoked or lost; for records the one partition. What a line does not have is -1,
    empty or None, and `begun_ns` and `ended_ns` are then `ns`.
    """

    kind: str
    ms: int
    partitions: frozenset[Partition] = frozenset()
    first: int = -1
    last: int = -1
    count: int = 0
    brokers: Mapping[int, int] | None = None
    message: str = ""
    ns: int = 0
    begun_ns: int = 0
    ended_ns: int = 0
    generation: int = -1
    offsets: Mapping[Partition, int] | None = None
    member: str = ""


_AS_THEY_ARE: Final = ("ms", "first", "last", "count", "message", "generation")


@cache
def _single(topic: str, partition: int) -> frozenset[Partition]:
    """Return the same set for all events of a partition, to save memory."""
    return frozenset([(topic, partition)])


def read_event(line: bytes) -> Event:
    """Read a line.

    Raises:
        ValueError: it is not a member's line.
    """
    try:
        fields: dict[str, Any] = json.loads(line)
        kind = fields["event"]
        if kind in {"records", "written"}:
            partitions = _single(fields["topic"], fields["partition"])
        else:
            partitions = frozenset((topic, partition) for topic, partition in fields.get("partitions", []))
        brokers, offsets, ns = fields.get("brokers"), fields.get("offsets"), fields.get("ns", 0)
        return Event(
            kind=kind,
            partitions=partitions,
            brokers=None if brokers is None else {int(broker): received for broker, received in brokers.items()},
            ns=ns,
            begun_ns=fields.get("begun_ns", ns),
            ended_ns=fields.get("ended_ns", ns),
            offsets=None if offsets is None else {(topic, partition): at for topic, partition, at in offsets},
            member=sys.intern(fields.get("member", "")),
            **{name: fields[name] for name in _AS_THEY_ARE if name in fields},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a line of a member: {line!r}") from error


class Member:
    """A running member; a context manager that ends it.

    Example:
        settings = MemberSettings(bootstrap=cluster.bootstrap, group="g", topics=("t",), client_id="c1")
        with Member.on("confluent", settings) as member:
            member.wait(lambda: len(member.owned) == 3, "it has three partitions")
    """

    def __init__(self, command: Sequence[str], *, name: str, history: Path | None = None) -> None:
        """Start the member; `name` is for messages, and `history` a file to which every line is also written."""
        self.name = name
        self.command = list(command)
        self._events: list[Event] = []
        self._owned: frozenset[Partition] = frozenset()
        self._last_read: dict[Partition, int] = {}
        self._errors: deque[str] = deque(maxlen=30)
        self._changed = threading.Condition()
        self._history = history.open("ab") if history is not None else None
        self._process = spawn(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, self._take), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, self._complain), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @classmethod
    def on(cls, client: str, settings: MemberSettings, *, history: Path | None = None) -> Self:
        """Start a member on a client, a key of `CLIENTS`."""
        return cls(CLIENTS[client](settings), name=settings.client_id, history=history)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that it has printed until now."""
        with self._changed:
            return tuple(self._events)

    @property
    def owned(self) -> frozenset[Partition]:
        """The partitions that it has now, by its events."""
        with self._changed:
            return self._owned

    def last_read(self, partition: Partition) -> int:
        """Return the highest offset that it has read of a partition; -1 before it has read any."""
        with self._changed:
            return self._last_read.get(partition, -1)

    @property
    def received(self) -> Mapping[int, int]:
        """Broker id to bytes received since its start; empty when its client does not report them."""
        for event in reversed(self.events):
            if event.brokers is not None:
                return event.brokers
        return {}

    @property
    def running(self) -> bool:
        """Whether its process is up."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait(self, holds: Callable[[], bool], what: str, *, timeout: float = 60.0) -> None:
        """Wait until a condition holds; check it again after each line."""
        timeout *= PATIENCE
        deadline = time.monotonic() + timeout
        with self._changed:
            while not holds():
                if not self.running:
                    self._changed.wait(0.2)  # for its last output
                    raise SandboxError(f"{self.name} ended before {what}; it said:\n{self.complaints}")
                if time.monotonic() > deadline:
                    raise SandboxError(f"{self.name}: waited {timeout:.0f} s in vain until {what}:\n{self.complaints}")
                self._changed.wait(0.1)

    @property
    def complaints(self) -> str:
        """The last lines of its standard error, and the errors among its events."""
        errors = [event.message for event in self._events if event.kind == "error"]
        return "\n".join([*errors[-5:], *self._errors]) or "(nothing)"

    def stop(self, *, kill: bool = False) -> None:
        """End it: in order, or with SIGKILL when `kill` is set; may be called again."""
        end(self._process, kill=kill, timeout=20)
        for reader in self._readers:
            reader.join(5)
        for stream in (self._process.stdout, self._process.stderr, self._history):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        """Return itself; the process runs already."""
        return self

    def __exit__(self, _kind: object, error: object, _trace: object, /) -> None:
        """End it, with SIGKILL after an error."""
        self.stop(kill=error is not None)

    def _read(self, stream: IO[bytes], take: Callable[[bytes], None]) -> None:
        for line in stream:
            take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = read_event(line)
        except ValueError as error:
            self._complain(str(error).encode())
            return
        if self._history is not None:
            self._history.write(line)
            self._history.flush()
        with self._changed:
            self._events.append(event)
            if event.kind == "assigned":
                self._owned |= event.partitions
            elif event.kind in {"revoked", "lost"}:
                self._owned -= event.partitions
            elif event.kind == "closed":
                self._owned = frozenset()
            elif event.kind == "records":
                for partition in event.partitions:
                    self._last_read[partition] = max(self._last_read.get(partition, -1), event.last)
            self._changed.notify_all()

    def _complain(self, line: bytes) -> None:
        with self._changed, suppress(UnicodeError):
            self._errors.append(line.decode(errors="replace").rstrip())
