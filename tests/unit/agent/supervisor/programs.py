"""Supervisors for programs of tests, whose workers do what a test says."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

from samerack.agent.settings_source import SettingsSource
from samerack.agent.supervisor.protocol import MemberIdentity, WorkerStart
from samerack.agent.supervisor.watchdog import Supervisor
from samerack.settings.loading import load


def source_of_a_test() -> SettingsSource:
    """Settings that never change, with two groups to lead."""
    flags = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ("orders", "payments")}
    return SettingsSource(lambda: load(flags=flags, environment={}), start=WorkerStart())


class ProcessesOfATest:
    """Workers do some work; nothing is left or logged."""

    def __init__(self, work: Callable[[WorkerStart, socket.socket], None] | None = None) -> None:
        self._work = work

    def work(self, start: WorkerStart, line: socket.socket) -> None:
        """Work, if there is something to do."""
        if self._work is not None:
            self._work(start, line)

    def leave(self, settings: str, members: frozenset[MemberIdentity], /) -> None:
        """Leave nothing."""

    def report(self, settings: str, level: str, event: str, /, **fields: object) -> None:
        """Report nothing."""


def run_until_exit(work: Callable[[WorkerStart, socket.socket], None]) -> int:
    """Supervise this work until it dies, and return the exit code; in a process of its own: forks copy no threads."""
    supervisor = Supervisor(ProcessesOfATest(work))

    def handle_worker_exit(reason: str) -> None:
        print("died:", reason, flush=True)  # noqa: T201 - for the test that reads it
        supervisor._on_signal(signal.SIGTERM, None)

    supervisor._handle_worker_exit = handle_worker_exit  # type: ignore[method-assign]
    return supervisor.run()
