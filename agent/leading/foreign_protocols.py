"""Remembers groups whose members last used a protocol that the agent does not offer, also across restarts.

While a group forms, the protocols that its members offer are not visible from outside. The agent could then force a
group with a custom assignor to use another one, so it stays out of groups that it last saw with a foreign protocol
until it sees them with one of its own.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger("leader")

_MAX_GROUPS: Final = 10_000
_MAX_BYTES: Final = 4_000_000


class ForeignProtocols:
    """The last foreign protocol by group; shared by all leaders of an agent."""

    def __init__(self, path: Path | None) -> None:
        """Reads what an earlier agent has stored.

        Args:
            path: The file; None remembers in memory only.
        """
        self._path = path
        self._lock = threading.Lock()
        self._protocols = _read(path) if path is not None else {}

    def of(self, group: str) -> str:
        """Returns the foreign protocol that the group used last, "" if there is none."""
        return self._protocols.get(group, "")

    def note(self, group: str, protocol: str, *, foreign: bool) -> None:
        """Stores a group's protocol if it is foreign; removes an earlier one if not."""
        with self._lock:
            if self._protocols.get(group, "") == (protocol if foreign else ""):
                return
            self._protocols.pop(group, None)
            if foreign:
                self._protocols[group] = protocol
                while len(self._protocols) > _MAX_GROUPS:
                    del self._protocols[next(iter(self._protocols))]
            if self._path is not None:
                self._write(self._path)

    def _write(self, path: Path) -> None:
        temporary = path.with_name(f"{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(self._protocols, indent=0), encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            log.warning("protocols-not-saved", path=str(path), error=str(error))


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open(encoding="utf-8") as file:
            content = json.loads(file.read(_MAX_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        log.warning("protocols-not-read", path=str(path), error=str(error))
        return {}
    if not isinstance(content, dict):
        log.warning("protocols-not-read", path=str(path), error="not an object of group to protocol")
        return {}
    return {str(group): str(protocol) for group, protocol in content.items()}
