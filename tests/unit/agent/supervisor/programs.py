"""A supervisor for programs of tests: it ends at its worker's first death, and prints the reason."""

from __future__ import annotations

import signal

from samerack.agent.settings_source import SettingsSource
from samerack.agent.supervisor.watchdog import Supervisor, Work
from samerack.settings.loading import load


def settings_of_a_test() -> SettingsSource:
    """Settings that never change, with two groups to lead."""
    flags = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ("orders", "payments")}
    settings = load(flags=flags, environment={})
    return SettingsSource(settings, lambda: settings)


def run_until_exit(work: Work) -> int:
    """Supervise this work until it dies, and return the exit code; in a process of its own: forks copy no threads."""
    supervisor = Supervisor(settings_of_a_test(), work=work, leave=lambda _gone: None)

    def handle_worker_exit(reason: str) -> None:
        print("died:", reason, flush=True)  # noqa: T201 - for the test that reads it
        supervisor._on_signal(signal.SIGTERM, None)

    supervisor._handle_worker_exit = handle_worker_exit  # type: ignore[method-assign]
    return supervisor.run()
