"""Settings of who does the work: the election between the agents of one cluster, and each agent's supervisor.

In the election the agents also exchange their racks.
"""

from __future__ import annotations

from pydantic import Field

from samerack.settings.base import Seconds, Section


class ElectionSettings(Section):
    """The agents' own Kafka group: one of them is active for each group to lead, the others stand by."""

    group: str = Field(
        default="samerack",
        description="Kafka group for the agents' election; the same for all agents that may lead the same group. "
        "Empty: no election.",
    )
    identity: str = Field(
        default="",
        description="This agent's unique name, stable across restarts. Empty: derived from the host name, the port and "
        "the groups.",
    )
    session_timeout_seconds: Seconds = Field(
        default=6.0, description="How long the active agent may be silent before another takes over."
    )

    def owns(self, group: str) -> bool:
        """Return whether a group is the agents' own: that of the election, or one in which agents wait outside it."""
        return bool(self.group) and (group == self.group or group.startswith(f"{self.group}-waiting-"))


class SupervisorSettings(Section):
    """`samerack run` watches over a process that does the work, and replaces it at once when it dies or hangs."""

    memory_mib: int = Field(
        default=1024,
        ge=64,
        description="Resident MiB above which the worker is replaced; in a container also above three quarters of its "
        "memory limit.",
    )
    restart_window_seconds: Seconds = Field(
        default=300.0,
        description="How long a restart counts. After five that count the agent leaves its groups, and only observes "
        "them for this time.",
    )
