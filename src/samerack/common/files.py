"""Notices that a file was replaced: the file behind the name counts, as a mounted file of Kubernetes is a link."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

FileVersion: TypeAlias = tuple[int, int, int]


def file_version(path: Path) -> FileVersion | None:
    """Return what differs between versions of a file; None without one, or while it is replaced."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
