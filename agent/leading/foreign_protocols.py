"""Remembers groups whose members last used a protocol that the agent does not offer, also across restarts.

While a group forms, the protocols that its members offer are not visible from outside. The agent could then force a
group with a custom assignor to use another one, so it stays out of groups that it last saw with a foreign protocol
until it sees them with one of its own.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from samerack.agent.leading.kept_file import KeptFile

_MAX_GROUPS: Final = 10_000


class ForeignProtocols:
    """The last foreign protocol by group; shared by all leaders of an agent."""

    def __init__(self, path: Path | None) -> None:
        """Read what an earlier agent has stored; without a path it is remembered in memory only."""
        self._file = KeptFile(path, name="protocols")
        self._lock = threading.Lock()
        self._protocols = self._stored()

    def of(self, group: str) -> str:
        """Return the foreign protocol that the group used last, "" if there is none."""
        return self._protocols.get(group, "")

    def note(self, group: str, protocol: str, *, foreign: bool) -> None:
        """Store a group's protocol if it is foreign; remove an earlier one if not."""
        with self._lock:
            if self._protocols.get(group, "") == (protocol if foreign else ""):
                return
            self._protocols.pop(group, None)
            if foreign:
                self._protocols[group] = protocol
                while len(self._protocols) > _MAX_GROUPS:
                    del self._protocols[next(iter(self._protocols))]
            self._file.write(self._protocols)

    def _stored(self) -> dict[str, str]:
        content = self._file.read()
        if content is None:
            return {}
        if not isinstance(content, dict):
            self._file.reject("not an object of group to protocol")
            return {}
        return {str(group): str(protocol) for group, protocol in content.items()}
