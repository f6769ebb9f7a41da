"""Measures memory and processor time of a process with all of its children, such as Spark's Java and Python workers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

import psutil

_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The output of a process, a JSON object a line, and the time and memory that it used."""

    lines: tuple[dict[str, Any], ...]
    seconds: float
    cpu_seconds: float
    cpu_seconds_by_program: dict[str, float]
    peak_bytes: int


def run_watched(module: str, *arguments: str) -> Watched:
    """Run one of our modules in a separate process.

    Raises:
        SystemExit: the process failed.
    """
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own module
    watch = TreeWatch(process.pid)
    watch.start()
    output, _ = process.communicate()
    seconds = time.perf_counter() - begun
    watch.over.set()
    if process.returncode:
        raise SystemExit(f"{module} {' '.join(arguments)}: ended with {process.returncode}")
    return Watched(
        lines=tuple(json.loads(line) for line in output.splitlines()),
        seconds=seconds,
        cpu_seconds=watch.cpu_seconds,
        cpu_seconds_by_program=watch.cpu_seconds_by_program,
        peak_bytes=watch.peak_bytes,
    )


class TreeWatch(threading.Thread):
    """Samples a process tree ten times a second until `over` is set.

    Attributes:
        peak_bytes: highest resident memory of all processes together.
        cpu_seconds: processor time of all processes, each at the last sample in which it ran.
        over: to be set when the process has ended.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._root = psutil.Process(pid)
        self._seconds: dict[int, float] = {}
        self._programs: dict[int, str] = {}
        self.peak_bytes = 0
        self.over = threading.Event()

    @property
    def cpu_seconds(self) -> float:
        """User and system time of all processes."""
        return sum(self._seconds.values())

    @property
    def cpu_seconds_by_program(self) -> dict[str, float]:
        """The same by the name of the program."""
        found: dict[str, float] = {}
        for pid, seconds in self._seconds.items():
            found[self._programs[pid]] = found.get(self._programs[pid], 0.0) + seconds
        return found

    def run(self) -> None:
        """Sample until `over` is set."""
        while not self.over.wait(_LOOK_SECONDS):
            now = 0
            try:
                for process in (self._root, *self._root.children(recursive=True)):
                    now += process.memory_info().rss
                    times = process.cpu_times()
                    self._programs[process.pid] = process.name()
                    self._seconds[process.pid] = times.user + times.system
            except psutil.NoSuchProcess:
                continue
            self.peak_bytes = max(self.peak_bytes, now)
