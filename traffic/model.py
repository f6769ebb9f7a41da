"""Measured consumer traffic as immutable values: flows, groups, snapshots. All figures are made of these.

Bytes are bytes on the wire (compressed, with the protocol's overhead), in the direction broker to consumer. Racks are
names, or None where no source knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Literal, TypeAlias

from samerack.assignors.model import Problem
from samerack.cluster.racks import MemberRack
from samerack.cluster.view import ClusterView
from samerack.traffic.evenness import BusiestMember, TopicShare
from samerack.traffic.streams_client import StreamsClient

Method: TypeAlias = Literal["estimated", "exact"]
"""`exact`: the client itself counted the bytes of its connections; `estimated`: offsets on a curve of log sizes."""

GroupKind: TypeAlias = Literal["classic", "consumer", "streams-classic", "streams", "other"]
"""classic; consumer (KIP-848); Kafka Streams on the classic protocol; streams (KIP-1071); anything else."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FlowKey:
    """The key by which volumes are counted separately.

    Attributes:
        group: The consumer group.
        topic: The topic.
        client_rack: The member's rack, "" where unknown.
        replica_rack: The rack of the replica that served it, "" where unknown.
        method: How the bytes are known.
    """

    group: str
    topic: str
    client_rack: str
    replica_rack: str
    method: Method

    @property
    def cross_rack(self) -> bool | None:
        """Whether the bytes crossed racks; None where either rack is unknown."""
        if not self.client_rack or not self.replica_rack:
            return None
        return self.client_rack != self.replica_rack


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """How much was read: wire bytes and records (by offsets, so an upper bound for a compacted topic)."""

    wire_bytes: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The volume of one key within a snapshot's window."""

    key: FlowKey
    volume: Volume


class BlindSpot(Enum):
    """What a group's figures do not include; the value is the sentence to show beside the number."""

    NO_COMMITS = "some partitions have no committed offset: what is read there is not seen"
    REWOUND = "offsets went back: what was read a second time is not counted"
    PREFETCHED = "data that clients fetched and dropped is not counted"
    RACKS_UNKNOWN = "some members or brokers have no rack: their bytes are neither near nor across racks"
    SERVING_GUESSED = "the serving replica is guessed from the brokers' configuration, not probed"
    SIZES_UNKNOWN = "log sizes cannot be read: no bytes are known"
    SAMPLED = "bytes of some partitions are from a sample of the log (compacted, or read from before the agent began)"
    STATE = (
        "Kafka Streams keeps state of tasks that it does not run: what it reads of changelogs for that is not counted"
    )
    PARTITIONS_UNKNOWN = "the members do not show who reads which partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTraffic:
    """One member.

    Attributes:
        id: Member id.
        instance_id: `group.instance.id`, or None.
        client_id: Its `client.id`.
        client_host: Address that the brokers see.
        rack: Rack, its source, and whether fetches carry it.
        partitions: Partitions that it owns.
        method: How its bytes are known.
        streams: What Kafka Streams reports about its instance; None for other members.
        topics: What it subscribes to.
    """

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rack: MemberRack
    partitions: int
    method: Method
    streams: StreamsClient | None = None
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTraffic:
    """One partition that a group reads.

    Attributes:
        topic: The topic.
        number: The partition.
        member: Member id of its owner, or None.
        serving_broker: Broker whose replica serves the owner, or None where unknown.
        serving_rack: That broker's rack, or None where unknown.
        bytes_per_second: Smoothed rate of wire bytes, or None before there are two polls of its offsets.
        lag_records: End offset less committed offset, or None.
        committed: The committed offset, or None.
    """

    topic: str
    number: int
    member: str | None
    serving_broker: int | None
    serving_rack: str | None
    bytes_per_second: float | None
    lag_records: int | None
    committed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares between 0 and 1 of what crosses racks, out of what has both racks known; None where nothing is known.

    Attributes:
        present_bytes: Measured in the window.
        present_partitions: Partitions read across racks, out of those owned.
        optimal: What the best balanced plan would read across racks, by the same weights as `optimal_by`.
        optimal_by: The weights in `optimal`: byte rates where they are known.
        random: 1 - 1/R with R racks of brokers: the expected share of placement without regard to racks.
    """

    present_bytes: float | None = None
    present_partitions: float | None = None
    optimal: float | None = None
    optimal_by: Literal["bytes", "partitions"] = "partitions"
    random: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTraffic:
    """One group at the end of the window.

    Attributes:
        group: Its name.
        kind: Its protocol.
        state: As the brokers name it (Stable, Empty ...).
        assignor: Protocol or assignor name that the group uses, "" where there is none.
        members: Its members without the agent itself, by id.
        partitions: What it reads, by topic and number.
        flows: Volume in the window, by key.
        shares: What crosses racks.
        bytes_per_second: Wire bytes per second in the window, or None before anything was measured.
        blind_spots: What its figures do not include.
        problem: The group as an assignment problem (present owners, replica racks, byte rates as weights), to put to
            any assignor; None where members or partitions are not known. Observed groups are never joined.
        topic_share: The topic of which one member has most, or None where none is shared.
        busiest: The member that reads most, or None where rates are not known.
        note: Why the group is not shown in full, or "".
    """

    group: str
    kind: GroupKind
    state: str
    assignor: str = ""
    members: tuple[MemberTraffic, ...] = ()
    partitions: tuple[PartitionTraffic, ...] = ()
    flows: tuple[Flow, ...] = ()
    shares: Shares = Shares()
    bytes_per_second: float | None = None
    blind_spots: tuple[BlindSpot, ...] = ()
    problem: Problem | None = None
    topic_share: TopicShare | None = None
    busiest: BusiestMember | None = None
    note: str = ""


class Family(StrEnum):
    """Families of requests, each of which may fail alone; the value is the label in metrics."""

    METADATA = "metadata"
    GROUPS = "groups"
    LOG_DIRS = "log-dirs"
    END_OFFSETS = "end-offsets"
    COMMITTED = "committed"
    PROBE = "probe"
    SAMPLE = "sample"
    TOPIC_CONFIGS = "topic-configs"
    SELECTOR = "selector"
    STATISTICS = "statistics"
    SCRAPE = "scrape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A request that was refused or failed, and what the figures lack because of it.

    Attributes:
        what: What was requested: a `Family`, `events` or `publishing`.
        refused: True for a missing permission, False for another failure.
        where: Broker, topic or group it concerns; "" for all.
        reason: The broker's error name or the failure as text.
        consequence: What the figures lack, and the cure.
    """

    what: str
    where: str
    refused: bool
    reason: str
    consequence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSnapshot:
    """Everything that is known at one moment; published as a whole after each cycle.

    Attributes:
        groups: Every observed group, by name.
        cluster: Brokers with racks, and topics with leaders, replicas and in-sync replicas, as last seen.
        rack_aware_fetch: Whether the brokers' selector serves from the reader's rack; None where unknown.
        window_start: When the window of `flows` began, in seconds since 1970.
        window_end: When it ended: the time of the last cycle.
        cycle: Number of this cycle, from 1.
        cycle_seconds: How long the cycle took.
        gaps: Requests that were refused or failed.
    """

    groups: tuple[GroupTraffic, ...] = ()
    cluster: ClusterView = field(
        default_factory=lambda: ClusterView(brokers=MappingProxyType({}), topics=MappingProxyType({}))
    )
    rack_aware_fetch: bool | None = None
    window_start: float = 0.0
    window_end: float = 0.0
    cycle: int = 0
    cycle_seconds: float = 0.0
    gaps: tuple[Gap, ...] = ()

    @property
    def window_seconds(self) -> float:
        """Length of the window."""
        return self.window_end - self.window_start


Totals: TypeAlias = Mapping[FlowKey, Volume]
"""Volumes since the agent started; a key's figures never go down."""
