"""Settings of the election with which the agents of one cluster choose the active one and exchange their racks."""

from __future__ import annotations

from ipaddress import ip_address

from pydantic import Field, field_validator

from samerack.common.settings.base import Names, Seconds, Section


class ElectionSettings(Section):
    """The agents' own Kafka group: one of them is active for each group to lead, the others stand by."""

    group: str = Field(
        default="samerack",
        description="Kafka group of the agents' election (protocol type `samerack`). Agents that may lead the same "
        "group must name the same one. Empty: no election; then no two agents may be given the same group to lead.",
    )
    identity: str = Field(
        default="",
        description="This agent's name among the others (`group.instance.id` in the agents' group): unlike any "
        "other's, and the same after a restart. Empty: made of the host's name, the port and the groups.",
    )
    session_timeout_seconds: Seconds = Field(
        default=6.0, description="After so long without a sign of life another agent takes over."
    )
    heartbeat_seconds: Seconds = Field(
        default=0.2, description="Time between two heartbeats; about how long a hand-over takes."
    )
    rebalance_timeout_seconds: Seconds = Field(
        default=5.0, description="How long an election waits for an agent that does not answer."
    )
    hand_over_seconds: float = Field(
        default=1.5,
        ge=0,
        description="How long an agent that ends goes on leading until the next one has taken over; then it leaves.",
    )
    addresses: Names = Field(
        default=(),
        description="Addresses of this host as the brokers see it; the other agents get them with this agent's rack. "
        "Empty: those that the host itself knows.",
        examples=[["10.1.2.3"]],
    )

    @field_validator("addresses")
    @classmethod
    def _addresses_parse(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            ip_address(address)  # its ValueError names what is wrong
        return addresses
