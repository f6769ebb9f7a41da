"""How much memory a process uses, and how much its container allows, as the kernel reports it.

A container is a control group (cgroup) of version 1 or 2, which may be inside others: the lowest limit counts. In
version 1 the path from the kernel may be the host's and not visible in the container: then the visible folders count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/")
_NO_LIMIT: Final = 1 << 60
"""Version 1 writes a number this large if there is no limit, version 2 writes `max`."""
_WORKER_SHARE: Final = 0.75
"""The worker's share of the container's memory; the rest is for the supervisor, planning processes and commands."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A memory limit of this process and others in its cgroup, and the memory in use that the kernel cannot drop."""

    limit_bytes: int
    used_bytes: int

    @property
    def left_bytes(self) -> int:
        """How much may still be allocated."""
        return max(0, self.limit_bytes - self.used_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The files of one cgroup version; `cache` is the key of file pages that the kernel can drop."""

    mount: Path
    limit: str
    used: str
    cache: str


def resident_bytes(process: int | str = "self") -> int:
    """Return the resident memory of a process, by its id or `self`; 0 if it has ended."""
    return _pages(process)[0] * os.sysconf("SC_PAGE_SIZE")


def anonymous_bytes(process: int | str = "self") -> int:
    """Return resident memory not backed by a file, which the kernel cannot drop; 0 if the process has ended."""
    resident, shared = _pages(process)
    return max(0, resident - shared) * os.sysconf("SC_PAGE_SIZE")


def _pages(process: int | str) -> tuple[int, int]:
    try:
        fields = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
        return int(fields[1]), int(fields[2])
    except (OSError, IndexError, ValueError):
        return 0, 0


def limits(root: Path = _ROOT) -> tuple[Limit, ...]:
    """Return every limit on this process's memory; none outside of containers."""
    found = []
    for files, path in _memberships(root):
        parts = [part for part in path.split("/") if part]
        depth = 0 if ".." in parts else len(parts)
        for folder in (files.mount.joinpath(*parts[:end]) for end in range(depth, -1, -1)):
            limit = _number(folder / files.limit)
            if limit is not None and limit < _NO_LIMIT:
                cache = _statistic(folder / "memory.stat", files.cache)
                used = max(0, (_number(folder / files.used) or 0) - cache)
                found.append(Limit(limit_bytes=limit, used_bytes=used))
    return tuple(found)


def overgrown(process: int, *, max_mib: int, root: Path = _ROOT) -> str:
    """Return why a process uses too much memory, of which so much may be resident; empty if it does not."""
    resident = resident_bytes(process) / _MIB
    if resident > max_mib:
        return f"{resident:.0f} MiB of memory, beyond supervisor.memory_mib"
    anonymous = anonymous_bytes(process) / _MIB
    allowed = min((one.limit_bytes for one in limits(root)), default=_NO_LIMIT) / _MIB
    if anonymous > allowed * _WORKER_SHARE:
        return f"{anonymous:.0f} MiB of memory, beyond three quarters of the container's {allowed:.0f} MiB"
    return ""


def _memberships(root: Path) -> Iterator[tuple[_Files, str]]:
    """Yield the control group of this process in the version that controls its memory."""
    groups = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    paths = {
        controllers: path for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1)
    }
    for controllers, path in paths.items():
        if "memory" in controllers.split(","):
            first = _Files(
                mount=groups / "memory",
                limit="memory.limit_in_bytes",
                used="memory.usage_in_bytes",
                cache="total_inactive_file",
            )
            yield first, path
            return
    if "" in paths:
        yield _Files(mount=groups, limit="memory.max", used="memory.current", cache="inactive_file"), paths[""]


def _number(path: Path) -> int | None:
    """Return the number in a file; None if it contains `max` or does not exist."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _statistic(path: Path, key: str) -> int:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{key} "))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0
