"""A small JSON file beside the events: what leaders of an agent remember across its restarts.

A file that cannot be read or written is only a warning: the groups must be led without it, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger("leader")

_MAX_BYTES: Final = 4_000_000


class KeptFile:
    """One file; the caller serializes its calls."""

    def __init__(self, path: Path | None, *, name: str) -> None:
        """Touch nothing yet. Without a path nothing is kept; `name` is what is in the file, for the log."""
        self._path = path
        self._name = name

    def read(self) -> object:
        """Return the content; None if there is none, or it cannot be read."""
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
