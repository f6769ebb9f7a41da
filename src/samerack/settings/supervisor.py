"""Settings of the process that supervises the agent's process."""

from __future__ import annotations

from pydantic import Field

from samerack.settings.base import Seconds, Section


class SupervisorSettings(Section):
    """`samerack run` watches over a process that does the work, and replaces it at once when it dies or hangs."""

    hang_seconds: Seconds = Field(
        default=1.0, description="After so long without a sign of life the worker is replaced."
    )
    start_seconds: Seconds = Field(default=30.0, description="How long the first sign of life may take.")
    memory_mib: int = Field(
        default=1024,
        ge=64,
        description="Resident MiB beyond which the worker is replaced; in a container also beyond three quarters of "
        "its memory.",
    )
    max_restarts: int = Field(
        default=5,
        ge=1,
        description="Restarts within `restart_window_seconds` after which the groups are left and only observed.",
    )
    restart_window_seconds: Seconds = Field(
        default=300.0, description="How long a restart counts, and how long groups are only observed after too many."
    )
