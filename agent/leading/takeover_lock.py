"""The lock that allows one takeover at a time in the whole agent: each one makes the members of a group wait."""

from __future__ import annotations

import threading


class TakeoverLock:
    """Allows one takeover at a time in the whole agent."""

    def __init__(self) -> None:
        """Make a lock that nobody holds."""
        self._lock = threading.Lock()
        self._holder = ""

    def take(self, group: str) -> str:
        """Take the lock for a group if it is free; return the group that holds it."""
        with self._lock:
            self._holder = self._holder or group
            return self._holder

    def give(self, group: str) -> None:
        """Release the lock if this group holds it."""
        with self._lock:
            if self._holder == group:
                self._holder = ""
