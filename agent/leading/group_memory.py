"""What leaders of an agent remember across its restarts: small JSON files beside the events, and what is in them.

While a group forms, the protocols that its members offer are not visible from outside: the agent stays out of groups
that it last saw with a foreign protocol, which it could force to use another one. To some clients an error of
JoinGroup is fatal: nobody is evicted twice in their groups (`agent.leading.evictions`). Where brokers limit the size of
groups (`group.max.size`), consumers that restart, or that start after all have stopped, must find their places free.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger("leader")

_MAX_BYTES: Final = 4_000_000
_MAX_GROUPS: Final = 10_000
KEEP_SECONDS: Final = 300.0
"""A consumer that restarts is back within this time."""


class KeptFile:
    """One file; the caller serializes its calls.

    One that cannot be read or written is only a warning: the groups must be led without it, too.
    """

    def __init__(self, path: Path | None, *, name: str) -> None:
        """Touch nothing yet. Without a path nothing is kept; `name` is what is in the file, for the log."""
        self._path = path
        self._name = name

    def read(self) -> object:
        """Return the content; None if the file does not exist or cannot be read."""
        if self._path is None:
            return None
        try:
            with self._path.open(encoding="utf-8") as file:
                content: object = json.loads(file.read(_MAX_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self.reject(str(error))
            return None
        return content

    def reject(self, error: str) -> None:
        """Warn that the content is of no use."""
        log.warning(f"{self._name}-not-read", path=str(self._path), error=error)

    def write(self, content: object) -> None:
        """Replace the content, as a whole or not at all."""
        if self._path is None:
            return
        temporary = self._path.with_name(f"{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch(mode=0o600)  # it may name users and their reasons
            temporary.write_text(json.dumps(content, indent=0), encoding="utf-8")
            temporary.replace(self._path)
        except OSError as error:
            log.warning(f"{self._name}-not-saved", path=str(self._path), error=str(error))


class GroupMemory:
    """One text by group; shared by all leaders of an agent."""

    def __init__(self, path: Path | None, *, name: str) -> None:
        """Read what an earlier agent has stored; without a path it is remembered in memory only."""
        self._file = KeptFile(path, name=name)
        self._lock = threading.Lock()
        self._texts = self._stored()

    def of(self, group: str) -> str:
        """Return what is remembered of the group, "" if nothing is."""
        return self._texts.get(group, "")

    def keep(self, group: str, text: str) -> None:
        """Remember this text of the group in place of another one; "" forgets the group."""
        if self.of(group) == text:
            return  # without the lock: whoever has it may wait for a disk
        with self._lock:
            self._texts.pop(group, None)
            if text:
                self._texts[group] = text
                while len(self._texts) > _MAX_GROUPS:
                    del self._texts[next(iter(self._texts))]
            self._file.write(self._texts)

    def _stored(self) -> dict[str, str]:
        content = self._file.read()
        if content is None:
            return {}
        if not isinstance(content, dict):
            self._file.reject("not an object of group to text")
            return {}
        return {str(group): str(text) for group, text in content.items()}


class GroupSizes:
    """How many consumers each group has when it is complete; shared by all leaders of an agent.

    A group is smaller for good only if it stays so for a while.
    """

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
