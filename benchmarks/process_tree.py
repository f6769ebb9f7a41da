"""Memory and processor time of a process with all of its children, as Spark's Java and Python workers are.

What must not enter: what is measured.
"""

from __future__ import annotations

import threading
from typing import Final

import psutil

_LOOK_SECONDS: Final = 0.1


class TreeWatch(threading.Thread):
    """Looks ten times a second until it is over.

    Attributes:
        peak_bytes: highest resident memory of all processes together.
        cpu_seconds: processor time of all of them, at the last look at which they lived.
        over: to be set when the process has ended.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._root = psutil.Process(pid)
        self._seconds: dict[int, float] = {}
        self.peak_bytes = 0
        self.over = threading.Event()

    @property
    def cpu_seconds(self) -> float:
        """User and system time."""
        return sum(self._seconds.values())

    def run(self) -> None:
        """Look until it is over."""
        while not self.over.wait(_LOOK_SECONDS):
            now = 0
            try:
                for process in (self._root, *self._root.children(recursive=True)):
                    now += process.memory_info().rss
                    times = process.cpu_times()
                    self._seconds[process.pid] = times.user + times.system
            except psutil.NoSuchProcess:
                continue
            self.peak_bytes = max(self.peak_bytes, now)
