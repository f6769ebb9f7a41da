"""Settings of leading: membership in groups, election, supervisor; and where racks of members and pods come from."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Final, Literal, TypeAlias

from pydantic import Field, field_validator

from samerack.common.patterns import first_match
from samerack.settings.base import Seconds, Section, with_rules

STREAMS_PROTOCOLS: Final = frozenset({"stream"})
"""Protocol names of Kafka Streams (its StreamsPartitionAssignor): a Streams leader decodes every member's user data and
fails on a member without any, so the agent never joins such a group."""

COOPERATIVE_PROTOCOLS: Final = frozenset({"cooperative-sticky"})
"""Protocol names whose members rebalance incrementally (KIP-429); all clients have this one."""

CLIENT_CONVENTIONS: Final = ("ws_az", "warpstream_az", "diskless_az", "inkless_az", "automq_az")
"""Keys that servers without rack-aware fetches read in a client id (`KEY=ZONE`) to route the client within its zone.

Of WarpStream (its page on client id features; pairs are separated by commas), Aiven (its page on availability zones of
diskless topics, and Inkless' ClientAZExtractor: commas or spaces; `inkless_az` is the older name) and AutoMQ (its
AzAwareClientConfigurator: `&`, and values are encoded as in URLs), as of November 2026.
"""


class RackSettings(Section):
    """Where the rack of a member comes from when its subscription names none."""

    client_ids: dict[str, str] = Field(
        default_factory=dict,
        description="Rack by client id: maps shell patterns to racks; the first match wins.",
        examples=[{"*-rack-a": "rack-a"}],
    )
    client_conventions: tuple[str, ...] = Field(
        default=CLIENT_CONVENTIONS,
        description="Rack in the client id: the keys in `KEY=ZONE`, as in `orders,diskless_az=use1-az1`; empty: none.",
        examples=[["zone"]],
    )
    networks: dict[str, str] = Field(
        default_factory=dict,
        description="Rack by client host: maps networks to racks; the longest prefix wins.",
        examples=[{"10.1.0.0/16": "rack-a"}],
    )
    client_tags: tuple[str, ...] = Field(
        default=("rack", "zone"),
        description="Kafka Streams: client tags (`client.tag.NAME`) that hold a rack; the first one that a member has "
        "wins.",
        examples=[["availability-zone"]],
    )
    fetch_with_rack: tuple[str, ...] = Field(
        default=(),
        description="Client id patterns of members that fetch with their rack (KIP-392) although their subscription "
        "has none.",
        examples=[["orders-*"]],
    )
    replica_selector: Literal["auto", "rack-aware", "leader"] = Field(
        default="auto",
        description="Which replicas may serve a fetch: `auto` reads the brokers' `replica.selector.class`.",
    )

    @field_validator("client_ids", "networks")
    @classmethod
    def _racks_are_named(cls, racks: dict[str, str]) -> dict[str, str]:
        for key, rack in racks.items():
            if not rack.strip():
                raise ValueError(f"{key!r} has an empty rack; name one, or remove it")
        return racks

    @field_validator("client_conventions")
    @classmethod
    def _conventions_are_keys(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        for key in keys:
            if not re.fullmatch(r"[^=,;&|\s]+", key):
                raise ValueError(
                    f"{key!r} is not the key of a KEY=ZONE in a client id; give only the key, such as ws_az"
                )
        return keys

    @field_validator("networks")
    @classmethod
    def _networks_parse(cls, networks: dict[str, str]) -> dict[str, str]:
        for network in networks:
            ip_network(network)  # its ValueError names what is wrong
        return networks


class MemberRule(Section):
    """What some members can carry."""

    match: str = Field(
        min_length=1,
        description="Shell pattern of the members' client ids, instance ids or hosts.",
        examples=["*-canary-*"],
    )
    capacity: float = Field(
        default=1.0, gt=0, le=1e6, description="Load that such a member can carry, relative to other members."
    )
    max_partitions: int | None = Field(default=None, ge=0, description="Partitions that it may have at most.")


Balance: TypeAlias = Literal["partitions", "bytes", "records"]


class BalanceRules(Section):
    """By what members of a group are balanced; this may differ by group."""

    balance: Balance = Field(
        default="partitions",
        description="What is spread evenly over members: numbers of partitions, or measured bytes or records per "
        "second. Records are counted by offsets: an upper bound, where topics are compacted.",
    )
    balance_tolerance: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="How far the most loaded member may be above the least possible, as a share of that, to reduce "
        "cross-rack reads; with `balance: bytes`, `balance: records` or `members`.",
    )
    members: tuple[MemberRule, ...] = Field(
        default=(),
        description="Members of unequal strength: the first rule that fits a member counts. Their loads are balanced "
        "relative to their capacities.",
        examples=[[{"match": "*-canary-*", "max_partitions": 2}, {"match": "big-*", "capacity": 2}]],
    )


class LeadingSettings(BalanceRules):
    """How the agent is present in a group."""

    instance_id: str = Field(
        default="samerack", min_length=1, description="`group.instance.id` of the agent in every group it leads."
    )
    session_timeout_seconds: Seconds = Field(
        default=9.0,
        description="Session timeout of the agent's membership, longer than `election.session_timeout_seconds`; "
        "brokers refuse less than `group.min.session.timeout.ms`.",
    )
    protocols: tuple[str, ...] = Field(
        default=("range", "roundrobin", "sticky", "cooperative-sticky", "RoundRobinAssigner"),
        min_length=1,
        description="Protocol names the agent offers; it can join a group only if all members share one of them. Of "
        "these only `cooperative-sticky` rebalances incrementally (KIP-429); name no other such assignor.",
    )
    allow_roundrobin_v0: bool = Field(
        default=False,
        description="Join `roundrobin` groups that have members with subscription v0; safe only if no member is "
        "kafka-python 3.",
    )
    keep_copartitioned: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether partition i of co-partitioned topics stays on one member; `auto`: if the group's protocol "
        "is `range`, as in Kafka; each set of such topics is then balanced separately.",
    )
    weigh_by: Literal["bytes", "partitions"] = Field(
        default="bytes",
        description="Cost of a partition that is read across racks: its measured bytes per second, or 1.",
    )
    max_skew: int = Field(
        default=0,
        ge=0,
        description="Partitions above its fair share that a member may get to reduce cross-rack reads. Ignored where "
        "`keep_copartitioned` applies, even to one topic, and where members are balanced by load, capacities or "
        "limits.",
    )
    deadline_seconds: Seconds = Field(
        default=5.0, description="Maximum time to compute a plan; keep it below the members' session timeout."
    )
    position_retry_seconds: Seconds = Field(
        default=30.0, description="Pause after a failed attempt to become first in the brokers' member order."
    )
    takeover: Literal["patient", "clean"] = Field(
        default="patient",
        description="`patient` waits until the group's leader leaves; `clean` takes over in eager groups where the "
        "policy allows a rebalance.",
    )
    takeover_wait_seconds: Seconds = Field(
        default=5.0, description="How long members may take to rejoin during a takeover."
    )

    groups: dict[str, BalanceRules] = Field(
        default_factory=dict,
        description="Balance of individual groups: maps shell patterns of group names to `balance`, "
        "`balance_tolerance` and `members`; the first match wins.",
        examples=[{"orders-*": {"balance": "bytes"}}],
    )

    def of(self, group: str) -> LeadingSettings:
        """Return the settings for one group."""
        return with_rules(self, first_match(self.groups, group))

    @property
    def uses_traffic(self) -> bool:
        """Whether plans need measured traffic."""
        return self.weigh_by == "bytes" or self.balance != "partitions"

    @field_validator("protocols")
    @classmethod
    def _is_not_streams(cls, protocols: tuple[str, ...]) -> tuple[str, ...]:
        for protocol in protocols:
            if protocol in STREAMS_PROTOCOLS:
                raise ValueError(
                    f"{protocol!r} is Kafka Streams, which assigns its own tasks: its leader fails on a member that is "
                    "not Streams, and the application stops; remove the name"
                )
        return protocols


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


RackSource = Literal["env", "file", "label", "kubernetes", "cloud"]


class PodSettings(Section):
    """Where the rack of the pod that the agent runs in comes from; `samerack rack` shows what each source says."""

    sources: tuple[RackSource, ...] = Field(
        default=("env", "file", "label"),
        description="Sources for the rack of this pod; the first that has one wins. `kubernetes` and `cloud` use the "
        "network.",
    )
    rack_file: str = Field(
        default="",
        description="`file`: a file whose first line is the rack, such as `samerack rack --write` makes.",
        examples=["/run/samerack/rack"],
    )
    label: str = Field(
        default="topology.kubernetes.io/zone",
        description="`label`, `kubernetes`: the label of pods and nodes that has the zone.",
    )
    zones: dict[str, str] = Field(
        default_factory=dict,
        description="The brokers' name of each rack, by zone name or id.",
        examples=[{"us-east-1a": "use1-az4"}],
    )
    kubernetes_account: str = Field(
        default="/var/run/secrets/kubernetes.io/serviceaccount",
        description="`kubernetes`: the folder with `token`, `ca.crt` and `namespace` of the pod's service account.",
    )
    kubernetes_members: bool = Field(
        default=False, description="Ask the Kubernetes API for the rack of each member that no other source knows."
    )
    kubernetes_namespaces: tuple[str, ...] = Field(
        default=(),
        description="Namespaces of members' pods, `*` for all; empty: the agent's own.",
        examples=[["orders", "payments"]],
    )
    cloud_zone: Literal["name", "id"] = Field(
        default="name", description="`cloud`: whether to use a zone's name or, on AWS, its id."
    )

    @field_validator("sources")
    @classmethod
    def _each_once(cls, sources: tuple[RackSource, ...]) -> tuple[RackSource, ...]:
        if len(set(sources)) < len(sources):
            raise ValueError("lists a source twice")
        return sources
