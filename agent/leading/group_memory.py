"""Remembers one text of each group, also across restarts: what the agent has learned of it and cannot see later.

While a group forms, the protocols that its members offer are not visible from outside: the agent stays out of groups
that it last saw with a foreign protocol, which it could force to use another one. To some clients an error of
JoinGroup is fatal: nobody is evicted twice in their groups (`agent.leading.evictions`). And consumers that are away for
a moment need their places (`agent.leading.group_sizes`).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from samerack.agent.leading.kept_file import KeptFile

_MAX_GROUPS: Final = 10_000


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
        with self._lock:
            if self._texts.get(group, "") == text:
                return
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
