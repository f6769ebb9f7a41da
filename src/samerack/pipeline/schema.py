"""Spark schemas of all that the pipeline reads and keeps: the agents' two records, and the tables with column comments.

`common.records` is the contract of the records; a test compares the schemas here with it. docs/pipeline-tables.md is
generated from the tables here.

Bounds of single records do not bound a sum: a publisher may publish without end. Spark fails a query whose sum
overflows, and would fail again at every restart; so a sum in the tables stops at `FULL` instead.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

KEPT_BYTES: Final = 65_536
"""How much is kept of a bad record; its topic, partition and offset identify the rest."""

BAD_A_DAY: Final = 100_000
"""How many bad records of a day are kept; the others are counted. A flood of them would fill the disk."""

FULL: Final = 2**62 - 1
"""Upper limit of a sum of bytes or records, about 4.6 * 10^18. The sum of two such still fits into 64 bits."""

TEXT: Final = StringType()
COUNT: Final = LongType()
INDEX: Final = IntegerType()
INDICES: Final = ArrayType(INDEX)


def shape(**columns: DataType) -> StructType:
    """Return the type of rows with these columns."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])


_COMMON: Final = {"schema": INDEX, "id": TEXT, "agent": TEXT, "cluster": TEXT, "group": TEXT}

TRAFFIC_SAMPLE: Final = shape(
    **_COMMON,
    topic=TEXT,
    client_rack=TEXT,
    replica_rack=TEXT,
    method=TEXT,
    window_start=COUNT,
    window_end=COUNT,
    bytes=COUNT,
    records=COUNT,
    election=TEXT,
)
"""`common.records.TrafficSample` as JSON."""

MEMBERS: Final = ArrayType(
    shape(
        id=TEXT,
        client_id=TEXT,
        rack=INDEX,
        fetches_with_rack=BooleanType(),
        topics=INDICES,
        tells_rack=BooleanType(),
        client=INDEX,
        capacity=DoubleType(),
        max_partitions=COUNT,
    )
)
TOPICS: Final = ArrayType(
    shape(
        name=TEXT,
        replicas=ArrayType(INDICES),
        owner=INDICES,
        bytes_per_second=ArrayType(DoubleType()),
        tasks=INDICES,
        weights=INDICES,
        loads=ArrayType(COUNT),
    )
)
PLANNING: Final = shape(
    by_bytes=BooleanType(),
    keep_copartitioned=BooleanType(),
    max_skew=COUNT,
    balance_tolerance=DoubleType(),
)

GROUP_STATE: Final = shape(
    **_COMMON,
    at=COUNT,
    kind=TEXT,
    state=TEXT,
    assignor=TEXT,
    role=TEXT,
    rack_aware_fetch=BooleanType(),
    racks=ArrayType(TEXT),
    broker_racks=INDEX,
    members=MEMBERS,
    topics=TOPICS,
    planning=PLANNING,
    refusal=TEXT,
)
"""`common.records.GroupState` as JSON."""


def _table(*columns: tuple[str, DataType, str]) -> StructType:
    return StructType([StructField(name, kind, metadata={"comment": words}) for name, kind, words in columns])


_DAY: Final = ("day", DateType(), "Day in UTC; the table is partitioned by it.")

_READ: Final = (
    ("cluster", TEXT, "Kafka cluster, as the agents' settings name it."),
    ("group", TEXT, "Consumer group."),
    ("topic", TEXT, "Topic that was read."),
    ("client_rack", TEXT, "Rack of the members that read; empty where unknown."),
    ("replica_rack", TEXT, "Rack of the replicas that served; empty where unknown."),
)
_SUMS: Final = (
    ("bytes", COUNT, f"Bytes on the wire, broker to consumer; the sum stops at {FULL}."),
    ("records", COUNT, f"Records, by offsets; the sum stops at {FULL}."),
)

TRAFFIC_BY_MINUTE: Final = _table(
    *_READ,
    ("method", TEXT, "`exact`: clients counted the bytes; `estimated`: from offsets and log sizes."),
    (
        "counted_by",
        TEXT,
        "The election whose agents counted this among them, else the agent that counted alone; null in rows of older "
        "versions, which had added up everybody.",
    ),
    ("minute", TimestampType(), "Minute in UTC in which the sample's window begins."),
    *_SUMS,
    ("samples", COUNT, "Samples in the row: one; in rows of older versions those of a batch."),
    _DAY,
)
"""A row for each sample, to be added up by key (all columns before `bytes`)."""

TRAFFIC_BY_DAY: Final = _table(
    *_READ,
    ("first_minute", TimestampType(), "First minute of the day that has samples."),
    ("last_minute", TimestampType(), "Last minute of the day that has samples."),
    *_SUMS,
    ("exact_bytes", COUNT, "Of the bytes, those that clients counted."),
    (
        "counts",
        DoubleType(),
        "How many values of `counted_by` the group had in a minute on average; null where it had at most one all day.",
    ),
    ("source", TEXT, "Digest of the names of the files of `traffic_by_minute` that the day was added up from."),
    _DAY,
)
"""One row for each key (all columns before `first_minute`) and day, each byte once; `days` says which rows hold."""

GROUP_STATES: Final = _table(
    ("id", TEXT, "The record's id; a state that is sent again, byte for byte, is here once."),
    ("schema", INDEX, "Version of the record, of those that are known; fields that newer agents add are left out."),
    ("agent", TEXT, "The agent that measured."),
    ("cluster", TEXT, "Kafka cluster, as the agents' settings name it."),
    ("group", TEXT, "Consumer group."),
    ("at", TimestampType(), "Moment of the poll, in UTC."),
    (
        "kind",
        TEXT,
        "`classic`, `consumer` (KIP-848), `streams-classic`, `streams` (KIP-1071), `share` (KIP-932) or `other`.",
    ),
    ("state", TEXT, "State of the group, as the brokers name it."),
    ("assignor", TEXT, "Protocol or assignor that the group uses; empty where there is none."),
    ("role", TEXT, "What the agent is to the group: `leading`, or another word of its own; empty where it measures."),
    ("rack_aware_fetch", BooleanType(), "Whether the brokers serve from the reader's rack; null where unknown."),
    ("racks", ArrayType(TEXT), "Every rack of brokers and members, by name; other columns point into it from 0."),
    ("broker_racks", INDEX, "How many of `racks` are racks of brokers; these come first."),
    (
        "members",
        MEMBERS,
        "The members: `rack` is an index into `racks` or -1, `topics` are indices into `topics`; `tells_rack` is null "
        "where an older agent did not say; `client` is the number of a Kafka Streams client, null without one or where "
        "it is not known; `capacity` and `max_partitions` are null where members are alike and without limit.",
    ),
    (
        "topics",
        TOPICS,
        "What they read, an entry for each partition: `replicas` (racks, the leader's first), `owner` (index into "
        "`members` or -1), `bytes_per_second` (empty where unknown), `tasks` (numbers of Kafka Streams' "
        "tasks or -1; null as `client`), `weights` (what planning counts them as; null where they count alike, and "
        "where an older agent did not say), `loads` (what members are balanced by; null where counts decide).",
    ),
    ("planning", PLANNING, "How the agent plans the group, or would; null where an older agent did not say."),
    (
        "refusal",
        TEXT,
        "Why the agent would not join the group; empty where it may, null where members do not choose the assignor, "
        "and as `planning`.",
    ),
    _DAY,
)
"""One row for each state that an agent has published."""

QUARANTINE: Final = _table(
    ("reason", TEXT, "What is wrong."),
    ("raw", BinaryType(), f"The record's first {KEPT_BYTES} bytes; null where there are none."),
    ("topic", TEXT, "Topic in Kafka."),
    ("partition", INDEX, "Partition in Kafka."),
    ("offset", COUNT, "Offset in Kafka."),
    ("at", TimestampType(), "When the stream read it."),
    _DAY,
    (
        "records",
        COUNT,
        f"How many records the row stands for: 1, or null in rows of older versions; beyond {BAD_A_DAY} of a day, all "
        "those of a batch, without `raw` and place.",
    ),
)
"""One row for each bad record."""

TABLES: Final = {
    "traffic_by_minute": TRAFFIC_BY_MINUTE,
    "traffic_by_day": TRAFFIC_BY_DAY,
    "group_states": GROUP_STATES,
    "quarantine": QUARANTINE,
}
KEY: Final = ("cluster", "group", "topic", "client_rack", "replica_rack", "method", "counted_by", "minute")
"""By what rows of `traffic_by_minute` are added up."""


def total(counts: str | Column) -> Column:
    """Return the sum of a column of non-negative counts: FULL at most, null without any count."""
    whole = F.least(F.coalesce(F.try_sum(counts), F.lit(FULL)), F.lit(FULL))
    return F.when(F.count(counts) > 0, whole)


def state_as_json() -> Column:
    """Return a row of `group_states` as an agent publishes it."""
    columns = [F.unix_millis("at").alias("at") if name == "at" else F.col(f"`{name}`") for name in GROUP_STATE.names]
    # the contract requires fields that are null too
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
