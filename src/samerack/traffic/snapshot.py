"""Measured consumer traffic as immutable values: flows, groups, snapshots. All figures are made of these.

Bytes are bytes on the wire (compressed, with the protocol's overhead), in the direction broker to consumer. Racks are
names, or None where no source knows them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from samerack.assignors.problem import Problem
from samerack.assignors.streams.whole_tasks import WholeTasks
from samerack.cluster.view import ClusterView
from samerack.planning.members import PlanMember
from samerack.traffic.log_growth import NOT_MEASURED, Replication
from samerack.traffic.streams_members import Sources, StreamsClient

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound(Generic[Number]):
    """What is known of the lag of some partitions.

    Attributes:
        value: The sum or the largest of what is known; None where nothing is.
        unknown: Partitions that are not known; with 0 the value is exact.
    """

    value: Number | None = None
    unknown: int = 0


Part: TypeAlias = Number | LowerBound[Number] | None
"""One partition's lag, None if not known, or the bound of several."""


Method: TypeAlias = Literal["estimated", "exact"]
"""`exact`: the client itself counted the bytes of its connections; `estimated`: offsets on a curve of log sizes."""

GroupKind: TypeAlias = Literal["classic", "consumer", "streams-classic", "streams", "share", "other"]
"""classic; consumer (KIP-848); Kafka Streams, classic; streams (KIP-1071); share (KIP-932); anything else."""

UNPLANNED_KINDS: Final = frozenset({"share", "other"})
"""Groups whose members own no partitions: no plan changes what they read."""

STREAMS_KINDS: Final = frozenset({"streams-classic", "streams"})
"""Groups whose members get whole tasks, in place of single partitions."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FlowKey:
    """The key by which volumes are counted separately; racks of the member and of the replica are "" where unknown."""

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

    def __add__(self, other: Volume) -> Volume:
        return Volume(wire_bytes=self.wire_bytes + other.wire_bytes, records=self.records + other.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The volume of one key within a snapshot's window."""

    key: FlowKey
    volume: Volume


class BlindSpot(Enum):
    """What a group's figures do not include; the value is the sentence to show beside the number."""

    NO_COMMITS = "some partitions have no committed offset: what is read there is not seen"
    REWOUND = "offsets went back: what is read again counts where the partition has an owner"
    PREFETCHED = "data that clients fetched and dropped is not counted"
    RACKS_UNKNOWN = "some members or brokers have no rack: their bytes are neither near nor across racks"
    SERVING_GUESSED = "the serving replica is guessed from the brokers' configuration, not probed"
    SIZES_UNKNOWN = "log sizes cannot be read: no bytes are known"
    SAMPLED = "bytes of some partitions are from a sample of the log (compacted, or read from before the agent began)"
    STATE = (
        "Kafka Streams keeps state of tasks that it does not run: what it reads of changelogs for that is not counted"
    )
    SHARED = "several members read the same partitions: which read what is not known, nor what was delivered again"
    YOUNG = "no whole time between two of its commits was measured yet: its figures may be far too low or too high"
    PARTITIONS_UNKNOWN = "the members do not show who reads which partition"


class Uncounted(StrEnum):
    """Why records between two offsets are not counted."""

    BEGIN_UNKNOWN = "begin-unknown"
    MOVED = "moved"
    DELETED = "deleted"
    BEYOND_END = "beyond-end"
    NO_READER = "no-reader"
    SEVERAL_POSITIONS = "several-positions"

    @property
    def sentence(self) -> str:
        """What to show beside the number."""
        return _SENTENCES[self]


_SENTENCES: Final = {
    Uncounted.BEGIN_UNKNOWN: "may have been read before the first commit of a partition; where that began is not known",
    Uncounted.MOVED: "were skipped: offsets were moved ahead without reading",
    Uncounted.DELETED: "were deleted before they are known to have been read",
    Uncounted.BEYOND_END: "lie beyond the end of the log: their offsets were committed, and nothing was there",
    Uncounted.NO_READER: (
        "may have been read by an application without members, or not at all, if a tool wrote their offsets; if an "
        "application such as Flink reads this way, add the group to traffic.readers_without_members"
    ),
    Uncounted.SEVERAL_POSITIONS: (
        "lie between offsets that go back and forth without members: they were read again, or there are several readers"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMember(PlanMember):
    """One member of any kind of group as brokers describe it.

    Attributes:
        client_host: Address that the brokers see.
        sessions: Whether its client keeps fetch sessions.
        streams: What Kafka Streams reports about its instance; None for other members.
    """

    topics: frozenset[str]
    client_host: str
    sessions: bool
    streams: StreamsClient | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTraffic:
    """One partition that a group reads.

    Attributes:
        partition: Topic and number; one object for all groups that read it, which there may be thousands of.
        member: Member id of its owner, or None.
        serving_rack: Rack of the broker whose replica serves the owner, or None where unknown.
        bytes_per_second: What the group reads by its commits, smoothed, in wire bytes; None before there are two polls,
            and where the leader has not answered for minutes.
        written_per_second: What is written to the partition: what the group reads in the long run; None while unknown.
        lag_records: Records that are not read yet, as `traffic.lag` has it; None if not known.
        lag_seconds: Age of the oldest of them; 0 without any, None if not known.
        readable_records: Records that it could have read: those of open transactions are not among them; None if not
            known.
        committed: The committed offset, or None.
    """

    partition: tuple[str, int]
    member: str | None
    serving_rack: str | None
    bytes_per_second: float | None
    lag_records: int | None
    written_per_second: float | None = None
    lag_seconds: float | None = None
    readable_records: int | None = None
    committed: int | None = None

    @property
    def long_run_per_second(self) -> float | None:
        """What the group reads in the long run: what is written, or what it reads while that is not known."""
        return self.bytes_per_second if self.written_per_second is None else self.written_per_second

    @property
    def topic(self) -> str:
        """The topic."""
        return self.partition[0]

    @property
    def number(self) -> int:
        """The partition's number."""
        return self.partition[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a member reads that is behind; it is judged at its commits, however rare these are.

    Attributes:
        lag_seconds: The largest lag of its partitions right after their last commits.
        ago_seconds: How long ago the last of these commits was seen.
        grows: Whether the lag of one of them grows, beyond what is uncertain.
        share: The part of its load that it reads: above 1 while it catches up. It reads as fast as it can, so that this
            times its load is what it can read; None while too little is known.
    """

    lag_seconds: float
    ago_seconds: float = 0.0
    grows: bool
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares between 0 and 1 of what crosses racks, out of what has both racks known; None where nothing is known.

    Attributes:
        present_bytes: Measured in the window.
        present_partitions: Partitions read across racks, out of those owned.
        optimal: What the best balanced plan would read across racks, by what `optimal_by` says.
        optimal_by: What `optimal` is a share of: bytes where plans are weighed by them.
        random: 1 - 1/R with R racks of brokers: the expected share of placement without regard to racks.
    """

    present_bytes: float | None = None
    present_partitions: float | None = None
    optimal: float | None = None
    optimal_by: Literal["bytes", "partitions"] = "partitions"
    random: float | None = None

    @property
    def present_is_by_bytes(self) -> bool:
        """Whether `present` is by bytes: if `optimal` is by bytes too, and bytes were measured."""
        return self.present_bytes is not None and self.optimal_by == "bytes"

    @property
    def present(self) -> float | None:
        """The share that crosses racks now, by bytes or by partitions."""
        return self.present_bytes if self.present_is_by_bytes else self.present_partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """One group of any kind as brokers describe it.

    Attributes:
        state: As the brokers name it (Stable, Empty ...).
        assignor: Protocol or assignor name that the group uses, "" where there is none.
        members: Its members without the agent itself.
        note: Why the group is not shown in full, or "".
        owned_known: False while members do not show what they own.
        tasks: Those of Kafka Streams, with what each reads, as far as they are described.
    """

    group: str
    kind: GroupKind
    state: str
    assignor: str = ""
    members: tuple[ObservedMember, ...] = ()
    note: str = ""
    owned_known: bool = True
    tasks: Sources = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTraffic(ObservedGroup):
    """One group at the end of the window, its members by id.

    Attributes:
        exact_members: Ids of those whose clients count their bytes; what others read is estimated.
        partitions: What it reads, by topic and number.
        flows: Volume in the window, by key.
        lag: Records that it has not read yet, by topic.
        lag_seconds: Age of the oldest of these records, by topic.
        bytes_per_second: Wire bytes per second in the window, or None before anything was measured.
        problem: The group as an assignment problem (present owners, replica racks, byte rates as weights), to put to
            any assignor; None where members or partitions are not known. Observed groups are never joined.
        whole_tasks: The tasks of Kafka Streams in `problem`; None for other groups, and where they are not known.
        not_counted: Records that no figure includes since the agent began to measure, at most, by reason.
        record_rates: Records that are written to its partitions in 1,000 seconds, if its members are balanced by them.
        paces: Of the members that are behind, by member id.
    """

    exact_members: frozenset[str] = frozenset()
    partitions: Collection[PartitionTraffic] = ()
    flows: tuple[Flow, ...] = ()
    shares: Shares = Shares()
    lag: Mapping[str, LowerBound[int]] = field(default_factory=dict)
    lag_seconds: Mapping[str, LowerBound[float]] = field(default_factory=dict)
    bytes_per_second: float | None = None
    blind_spots: tuple[BlindSpot, ...] = ()
    problem: Problem | None = None
    whole_tasks: WholeTasks | None = None
    not_counted: Mapping[Uncounted, int] = field(default_factory=dict)
    record_rates: Mapping[tuple[str, int], float] = field(default_factory=dict)
    paces: Mapping[str, Pace] = field(default_factory=dict)

    @property
    def long_run_rates(self) -> dict[tuple[str, int], float]:
        """As `long_run_rates` of its partitions."""
        return long_run_rates(self.partitions)

    def owned_by_member(self) -> dict[str, list[PartitionTraffic]]:
        """Return the partitions of each member by its id; of some there may be none."""
        owned: dict[str, list[PartitionTraffic]] = {member.id: [] for member in self.members}
        for partition in self.partitions:
            if partition.member in owned:
                owned[partition.member].append(partition)
        return owned


def long_run_rates(partitions: Iterable[PartitionTraffic]) -> dict[tuple[str, int], float]:
    """Return what is read in the long run by partition, in bytes per second, as far as that is known."""
    return {
        partition.partition: rate for partition in partitions if (rate := partition.long_run_per_second) is not None
    }


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
    """A request that was refused or failed, or a hand-over between agents, and what the figures lack because of it.

    Attributes:
        what: What was requested: a `Family`, `events` or `publishing`; or `hand-over`.
        where: Broker, topic or group it concerns; "" for all.
        refused: Whether a permission is missing.
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
        replication: What replication carried and producers sent, in a window of its own.
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
    replication: Replication = NOT_MEASURED

    @property
    def window_seconds(self) -> float:
        """Length of the window."""
        return self.window_end - self.window_start


Totals: TypeAlias = Mapping[FlowKey, Volume]
"""Volumes since the agent started; a key's figures never go down."""
