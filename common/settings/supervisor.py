"""Settings of the process that supervises the agent's process."""

from __future__ import annotations

from pydantic import Field

from samerack.common.settings.base import Seconds, Section


class SupervisorSettings(Section):
    """`samerack run` watches over a process that does the work, and replaces it at once when it dies or hangs."""

    hang_seconds: Seconds = Field(
        default=1.0,
        description="After so long without a sign of life the working process is killed and replaced. Time in which it "
        "was ready to run and got no processor does not count, up to 30 s.",
    )
    start_seconds: Seconds = Field(default=30.0, description="How long the first sign of life may take.")
    memory_mib: int = Field(
        default=1024,
        ge=64,
        description="Resident memory, in MiB, beyond which the working process is replaced. In a container also beyond "
        "three quarters of its memory, of what is in no file: at the limit the kernel would end all of it.",
    )
    max_restarts: int = Field(
        default=5,
        ge=1,
        description="After so many restarts of the working process within `restart_window_seconds` its groups are left "
        "and only observed.",
    )
    restart_window_seconds: Seconds = Field(
        default=300.0, description="How long a restart counts, and how long groups are only observed after too many."
    )
