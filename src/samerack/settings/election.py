"""Settings of who does the work: the election between the agents of one cluster, and each agent's supervisor.

In the election the agents also exchange their racks.
"""

from __future__ import annotations

from ipaddress import ip_address

from pydantic import Field, field_validator

from samerack.settings.base import Names, Seconds, Section


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
    hand_over_seconds: float = Field(
        default=1.5,
        ge=0,
        description="How long a stopping agent keeps leading until the next one has taken over. Values above 1.5 act "
        "as 1.5: an agent stops within five seconds.",
    )
    addresses: Names = Field(
        default=(),
        description="Addresses of this host as the brokers see it. Empty: the host's own addresses.",
        examples=[["10.1.2.3"]],
    )

    def owns(self, group: str) -> bool:
        """Return whether a group is the agents' own: that of the election, or one in which agents wait outside it."""
        return bool(self.group) and (group == self.group or group.startswith(f"{self.group}-waiting-"))

    @field_validator("addresses")
    @classmethod
    def _addresses_parse(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            ip_address(address)  # its ValueError names what is wrong
        return addresses


class SupervisorSettings(Section):
    """`samerack run` watches over a process that does the work, and replaces it at once when it dies or hangs."""

    memory_mib: int = Field(
        default=1024,
        ge=64,
        description="Resident MiB above which the worker is replaced; in a container also above three quarters of its "
        "memory limit.",
    )
    max_restarts: int = Field(
        default=5,
        ge=1,
        description="Restarts within `restart_window_seconds` after which the agent leaves its groups and only "
        "observes them.",
    )
    restart_window_seconds: Seconds = Field(
        default=300.0,
        description="How long a restart counts, and how long the agent only observes groups after too many.",
    )
