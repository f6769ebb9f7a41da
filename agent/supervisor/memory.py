"""How much memory a process holds, as the kernel tells; the worker shows it of itself, and its supervisor bounds it."""

from __future__ import annotations

import os
from pathlib import Path


def resident_bytes(process: int | str = "self") -> int:
    """Resident memory of a process; 0 when it is gone.

    Args:
        process: its id, or self.
    """
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
