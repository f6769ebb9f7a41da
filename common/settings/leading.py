"""Settings of the agent's membership in the groups that it leads, of its polling, and of members' racks."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final, Literal

from pydantic import Field, field_validator

from samerack.common.settings.base import Seconds, Section

STREAMS_PROTOCOLS: Final = frozenset({"stream"})
"""Protocol names of Kafka Streams (its StreamsPartitionAssignor): a Streams leader decodes every member's user data and
fails on a member without any, so the agent never joins such a group."""


class RackSettings(Section):
    """Where the rack of a member comes from when its subscription names none."""

    client_ids: dict[str, str] = Field(
        default_factory=dict,
        description="Rack by client id: shell patterns (`*`, `?`, `[...]`) to rack; the first that matches counts.",
        examples=[{"*-rack-a": "rack-a"}],
    )
    networks: dict[str, str] = Field(
        default_factory=dict,
        description="Rack by client host: network to rack; the longest prefix that holds the host counts.",
        examples=[{"10.1.0.0/16": "rack-a"}],
    )
    client_tags: tuple[str, ...] = Field(
        default=("rack", "zone"),
        description="Kafka Streams: names of client tags (`client.tag.NAME`) that hold a rack; the first that a member "
        "has counts.",
        examples=[["availability-zone"]],
    )
    fetch_with_rack: tuple[str, ...] = Field(
        default=(),
        description="Client id patterns of members that fetch with their rack (KIP-392) although their subscription "
        "carries none; for all other members without RackId only leader replicas count as near.",
        examples=[["orders-*"]],
    )
    replica_selector: Literal["auto", "rack-aware", "leader"] = Field(
        default="auto",
        description="Which replicas may serve a fetch: `auto` reads the brokers' `replica.selector.class`; "
        "`rack-aware` and `leader` say it where the agent may not read configurations.",
    )

    @field_validator("client_ids", "networks")
    @classmethod
    def _racks_are_named(cls, racks: dict[str, str]) -> dict[str, str]:
        for key, rack in racks.items():
            if not rack.strip():
                raise ValueError(f"{key!r} has an empty rack; name one, or leave it away")
        return racks

    @field_validator("networks")
    @classmethod
    def _networks_parse(cls, networks: dict[str, str]) -> dict[str, str]:
        for network in networks:
            ip_network(network)  # its ValueError names what is wrong
        return networks


class LeadingSettings(Section):
    """How the agent is present in a group."""

    instance_id: str = Field(
        default="samerack",
        min_length=1,
        description="`group.instance.id` of the agent in every group it leads. One running agent per group and id.",
    )
    session_timeout_seconds: Seconds = Field(
        default=9.0,
        description="Session timeout of the agent's membership; brokers refuse less than "
        "`group.min.session.timeout.ms`. Longer than `election.session_timeout_seconds` by some seconds, so that "
        "another agent has taken a dead one's membership over before the brokers give it up.",
    )
    heartbeat_seconds: Seconds = Field(default=0.5, description="Time between two heartbeats of the agent.")
    rebalance_timeout_seconds: Seconds = Field(
        default=10.0, description="The agent's own rebalance timeout; the group's is the largest of its members."
    )
    protocols: tuple[str, ...] = Field(
        default=("range", "roundrobin", "sticky", "cooperative-sticky", "RoundRobinAssigner"),
        min_length=1,
        description="Protocol names the agent offers, the group's present one always first. A group can only be joined "
        "when all its members share one of them. Names of Kafka Streams are refused.",
    )
    cooperative_protocols: tuple[str, ...] = Field(
        default=("cooperative-sticky",),
        description="Protocol names whose members rebalance incrementally (KIP-429): moving partitions are withheld "
        "for one round.",
    )
    allow_roundrobin_v0: bool = Field(
        default=False,
        description="Whether the agent may join a group that uses `roundrobin` and has members with subscription v0. "
        "kafka-python 3's roundrobin fails on the agent (a member without topics); say true if no member is "
        "kafka-python 3 (aiokafka's is sound).",
    )
    keep_copartitioned: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether partition i of co-partitioned topics stays on one member: `auto` does so where the "
        "group's protocol is `range`.",
    )
    weigh_by: Literal["bytes", "partitions"] = Field(
        default="bytes",
        description="What a partition read across racks costs: its measured bytes per second (to powers of two) as "
        "soon as they are known, or one for each partition.",
    )
    max_skew: int = Field(
        default=0,
        ge=0,
        description="How many partitions more than its fair share a member may get, so that fewer are read across "
        "racks; `samerack plan GROUP --curve` shows what that saves. Not where co-partitioned topics stay together.",
    )
    spread_moves: int = Field(
        default=0,
        ge=0,
        description="How many partitions a plan may move beyond the fewest, so that no member has too many of one "
        "topic. It is no reason for a rebalance. Not in very large groups, nor where co-partitioned topics stay "
        "together.",
    )
    deadline_seconds: Seconds = Field(
        default=5.0,
        description="How long planning may take at most: without an optimal plan by then the group gets the one of "
        "`range`. Looking at topics that the agent does not know yet is part of it; if that takes too long it leaves "
        "the group. Keep it below the members' session timeout.",
    )
    position_retry_seconds: Seconds = Field(
        default=30.0, description="Pause after an attempt to get to the front of the broker's order that failed."
    )
    takeover: Literal["patient", "clean"] = Field(
        default="patient",
        description="How the agent becomes the leader of a group that has one: `patient` waits for the leader's next "
        "restart; `clean` takes over by itself where the policy says that the gain is worth a rebalance, in "
        "eager groups only; one that is undone is tried again after half a minute and after a minute. "
        "`samerack lead GROUP --takeover clean` does the same on request.",
    )
    takeover_wait_seconds: Seconds = Field(
        default=5.0,
        description="How long members may take to rejoin (their heartbeat interval and poll loop) for a clean "
        "takeover; where they took longer lately it is refused, where they take longer in it, given up.",
    )

    @field_validator("protocols", "cooperative_protocols")
    @classmethod
    def _is_not_streams(cls, protocols: tuple[str, ...]) -> tuple[str, ...]:
        for protocol in protocols:
            if protocol in STREAMS_PROTOCOLS:
                raise ValueError(
                    f"{protocol!r} is Kafka Streams, which assigns its tasks itself: its leader fails on a member that "
                    "is not Streams, and the application stops; leave the name out"
                )
        return protocols


class WatchSettings(Section):
    """How often the agent looks."""

    cluster_seconds: Seconds = Field(
        default=0.5,
        description="Time between two polls of racks and replicas; stretched so that polling takes a tenth of the time "
        "at most.",
    )
    group_seconds: Seconds = Field(default=1.0, description="Time between two polls of a group.")
    waiting_seconds: Seconds = Field(
        default=0.5,
        description="Time between two polls of the groups that have no consumers: the agent enters with the first of "
        "them, within `group.initial.rebalance.delay.ms` of the brokers. One request to each coordinator for all of "
        "these groups.",
    )
