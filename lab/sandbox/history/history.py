"""The data: a history and its files, the spans in which members owned partitions, findings, and their counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path

from lab.sandbox.errors import SandboxError
from lab.sandbox.members.lines import Partition
from lab.sandbox.members.process import Event, read_event


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The history of one group: events of members by name, in the order of printing, of the feeder, and offsets kept.

    A killed member prints nothing more: it owned its partitions until its last event. `kept` are the offsets that the
    coordinator had at some times. What was not recorded is empty.
    """

    members: Mapping[str, tuple[Event, ...]]
    written: tuple[Event, ...] = ()
    kept: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The longest seconds that a partition may have no owner, or not be read although it has records to read."""

    unowned: float
    stop: float


class Kind(StrEnum):
    """Kinds of findings."""

    OWNED_TWICE = "owned twice"
    UNOWNED = "owned by nobody"
    SKIPPED = "skipped"
    READ_AGAIN = "read again"
    STOP = "stop"
    FORGOTTEN = "offset forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was wrong with a partition.

    `offsets` are the first and the last of the records that were skipped or read again; for a forgotten offset the one
    that the coordinator has instead (-1 is none) and the last one that was confirmed to a member.
    """

    kind: Kind
    partition: Partition
    since_ns: int
    until_ns: int
    members: tuple[str, ...] = ()
    offsets: tuple[int, int] | None = None

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return (self.until_ns - self.since_ns) / 1e9

    @property
    def records(self) -> int:
        """Number of records that were skipped or read again."""
        return 0 if self.offsets is None else self.offsets[1] - self.offsets[0] + 1

    def __str__(self) -> str:
        topic, number = self.partition
        words = f"{self.kind.value}: {topic}-{number}"
        if self.offsets is not None:
            words += f", offsets {self.offsets[0]} to {self.offsets[1]}"
        if self.members:
            words += f", by {' and '.join(self.members)}"
        return f"{words}, {self.seconds:.3f} s from {self.since_ns / 1e9:.3f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time in which a member owned a partition: until it was revoked or lost, or the member's last event.

    `generations` are the first and the last of that time; None if the client reports none.
    """

    member: str
    partition: Partition
    since_ns: int
    until_ns: int
    generations: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """Counts of what no run may cause, as `Kind` names it; lost are records that no member read."""

    lost: int
    owned_twice: int
    read_again: int
    forgotten: int

    def __str__(self) -> str:
        words = f"{self.lost} lost, {self.owned_twice} owned twice, {self.read_again} read again below a commit"
        return f"{words}, {self.forgotten} offsets forgotten"


def harm(findings: Mapping[str, Iterable[Finding]]) -> Harm:
    """Count the findings of all groups."""
    found = list(chain.from_iterable(findings.values()))
    return Harm(
        lost=sum(one.records for one in found if one.kind is Kind.SKIPPED),
        owned_twice=sum(one.kind is Kind.OWNED_TWICE for one in found),
        read_again=sum(one.kind is Kind.READ_AGAIN for one in found),
        forgotten=sum(one.kind is Kind.FORGOTTEN for one in found),
    )


def read_history(files: Iterable[Path]) -> History:
    """Return the history from the files of one group; a file's name without its suffix is the member's or the feeder's.

    A file of a process with several members counts as one file of each. A killed member may leave an incomplete last
    line, which is ignored.
    """
    members: dict[str, tuple[Event, ...]] = {}
    written: list[Event] = []
    kept: list[Event] = []
    for file in files:
        events = _read(file)
        written += [event for event in events if event.kind == "written"]
        kept += [event for event in events if event.kind == "kept"]
        by_member: dict[str, list[Event]] = {}
        for event in events:
            if event.kind not in {"written", "kept"}:
                by_member.setdefault(event.member, []).append(event)
        for member, of_member in by_member.items():
            members[f"{file.stem}/{member}" if len(by_member) > 1 else file.stem] = tuple(of_member)
    return History(members=members, written=tuple(written), kept=tuple(sorted(kept, key=lambda event: event.ns)))


def _read(file: Path) -> list[Event]:
    try:
        lines = file.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise SandboxError(f"cannot read {file}: {error.strerror}; it should hold a member's JSON lines") from None
    try:
        return [read_event(line) for line in lines if line.endswith(b"\n")]
    except ValueError as error:
        raise SandboxError(f"{file}: {error}; it should hold a member's JSON lines only") from None
