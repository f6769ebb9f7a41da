"""Finds the file system that a path is on: SQLite's locks and shared memory do not work over a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|9p|afs|ceph|lustre|glusterfs|fuse\.(glusterfs|sshfs|s3fs|nfs.*|ceph.*)"
)
"""Types of file systems that several machines may have mounted (proc(5), filesystems(5))."""
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def network_file_system(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type and mount point of the network file system that holds a path; "" for a local or unknown one.

    Args:
        path: A file or folder, which need not exist.
        mounts: The kernel's list of mounts, `/proc/self/mountinfo`.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found, longest = "", -1
    whole = path.resolve()
    for line in lines:
        fields, _, rest = line.partition(" - ")
        parts, kind = fields.split(" "), rest.partition(" ")[0]
        if len(parts) < 5:
            continue
        point = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), parts[4]))
        if len(point.parts) >= longest and whole.is_relative_to(point):  # the later of two at one point hides the other
            found, longest = (f"{kind} at {point}" if _NETWORK.fullmatch(kind) else ""), len(point.parts)
    return found
