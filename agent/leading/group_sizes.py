"""Remembers how many consumers each group has when it is complete, also across restarts.

Where brokers limit the size of groups (`group.max.size`), consumers that restart, or that start after all have stopped,
must find their places free. A group is smaller for good only if it stays so for a while.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from samerack.agent.leading.group_memory import GroupMemory

KEEP_SECONDS: Final = 300.0
"""A consumer that restarts is back within this time."""


class GroupSizes:
    """The last number of consumers by group; shared by all leaders of an agent."""

    def __init__(self, path: Path | None) -> None:
        """Read what an earlier agent has stored; without a path it is remembered in memory only."""
        self._memory = GroupMemory(path, name="sizes")
        self._smaller: dict[str, tuple[float, int]] = {}
        """Since when (monotonic seconds) a group is smaller than stored, and its largest size since then."""

    def of(self, group: str) -> int | None:
        """Return how many consumers the group had last; None if it was not seen."""
        size = self._memory.of(group)
        return int(size) if size.isdecimal() else None

    def note(self, group: str, size: int, now: float) -> None:
        """Store how many consumers a stable group has now; fewer than before count after `KEEP_SECONDS`."""
        known = self.of(group)
        since, most = self._smaller.pop(group, (now, size))
        if known is not None and size < known:
            size = max(size, most)
            if now - since < KEEP_SECONDS:
                self._smaller[group] = since, size
                return
        self._memory.keep(group, str(size))
