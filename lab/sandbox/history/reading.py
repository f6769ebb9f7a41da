"""Reads histories from files of JSON lines, one file for each member and one for the feeder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lab.sandbox.errors import SandboxError
from lab.sandbox.history.model import History
from lab.sandbox.members.process import Event, read_event


def read_history(files: Iterable[Path]) -> History:
    """Return the history from the files of one group; a file's name without its suffix is the member's.

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
