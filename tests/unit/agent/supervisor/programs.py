"""A supervisor for programs of tests: it ends at its worker's first death, and prints the reason."""

from __future__ import annotations

import signal

from samerack.agent.supervisor.watchdog import Supervisor, Work
from samerack.common.settings import SupervisorSettings


def run_until_death(work: Work) -> int:
    """Supervise this work until it dies, and return the exit code; in a process of its own: forks copy no threads."""
    supervisor = Supervisor(SupervisorSettings(), work=work, leave=lambda _gone: None)

    def handle_worker_exit(reason: str) -> None:
        print("died:", reason, flush=True)  # noqa: T201 - for the test that reads it
        supervisor._on_signal(signal.SIGTERM, None)

    supervisor._handle_worker_exit = handle_worker_exit  # type: ignore[method-assign]
    return supervisor.run()
