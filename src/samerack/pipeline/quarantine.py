"""The rules for bad records, each with its reason in words, and the rows of the quarantine table.

The rules are the contract of `common.records`, and bounds that keep one publisher from making sums wrong, filling the
tables with invented days, or making a report too large to compute. docs/pipeline.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructType

from samerack.common.records import SCHEMA
from samerack.pipeline.schema import GROUP_STATE, MEMBERS, PLANNING, QUARANTINE, TOPICS, TRAFFIC_SAMPLE
from samerack.settings.pipeline import PipelineSettings

Rules: TypeAlias = Iterator[tuple[Column, str | Column]]
"""Pairs of a condition under which a record is bad, and the reason."""

BROKEN: Final = "broken"
"""The field in which Spark's parser puts the text of a record that it could not read completely."""
BYTES_PER_SECOND: Final = 10**12
"""More than all members of a group read of one topic: ten network interfaces of 800 Gbit/s, the fastest Ethernet (IEEE
802.3df, 2024), of 10^11 bytes a second each. The same bound holds for records and for the rate of one partition."""
MIN_SECONDS: Final = 60
"""A shorter window may hold as much as one of this length: what an agent detects late counts in its current window."""
LONGEST_NAME: Final = 1000
"""Characters of a name: of a cluster, group, member, client, rack, agent, election, assignor."""
MAX_RACKS: Final = 1000
MAX_PARTITIONS: Final = 10**6
MAX_CELLS: Final = 10**8
"""Partitions times racks, and members times topics, of one state: assignors hold a byte for each."""
METHODS: Final = ("estimated", "exact")
KINDS: Final = ("classic", "consumer", "streams-classic", "streams", "share", "other")
_LONGEST_ID: Final = 64
_LONGEST_WINDOW_MS: Final = 3_600_000
"""Agents send windows of a minute at most."""
_FUTURE_MS: Final = 300_000
"""Clocks of hosts that are synchronised differ by less than a second."""
_NAME: Final = rf"\A[^\p{{Cc}}\p{{Zl}}\p{{Zp}}]{{0,{LONGEST_NAME}}}\z"
_TOPIC: Final = r"\A[a-zA-Z0-9._-]{1,249}\z"
"""Topic names that Kafka accepts (org.apache.kafka.common.internals.Topic)."""
_NO_NAME: Final = f"longer than {LONGEST_NAME} characters, or with control characters"
_MAY_BE_NULL: Final = frozenset({"election", "rack_aware_fetch", "planning"})
_MAY_BE_MISSING: Final = frozenset({"bytes_per_second", "tells_rack", "client", "tasks", "weights"})


def reason(settings: PipelineSettings, *, is_sample: Column, raw: Column, record: Column, now: Column) -> Column:
    """Return the first reason why a record is bad, or null; `raw` are its bytes, `record` the fields parsed from them.

    `is_sample` is whether it came from the topic of samples, `now` the stream's clock.
    """
    rules = [*_not_a_record(raw, record), *_of_all(record)]
    rules += [(is_sample & holds, words) for holds, words in _of_samples(settings, record, now)]
    rules += [(~is_sample & holds, words) for holds, words in _of_states(settings, record, now)]
    rules.append((record[BROKEN].isNotNull(), "a field within members or topics: of the wrong type"))
    chain = F.when(F.lit(False), F.lit(None).cast("string"))  # noqa: FBT003 - a literal of Spark's
    for holds, words in rules:
        chain = chain.when(holds, F.lit(words) if isinstance(words, str) else words)
    return chain


def quarantined(records: DataFrame) -> DataFrame:
    """Return the bad ones among parsed records, as rows of the table."""
    bad = records.where(F.col("wrong").isNotNull()).withColumnRenamed("wrong", "reason")
    return bad.withColumn("at", F.col("seen")).select(*QUARANTINE.names)


def _not_a_record(raw: Column, record: Column) -> Rules:
    text = raw.cast("string")
    broken = record.isNull() | record[BROKEN].isNotNull()
    yield raw.isNull() | (F.length(raw) == 0), "empty"
    # the second parser runs only where the first one failed
    yield ~F.is_valid_utf8(raw) | (broken & F.try_parse_json(text).isNull()), "not JSON"
    yield ~F.ltrim(text).startswith("{"), "not a JSON object"


def _of_all(record: Column) -> Rules:
    yield _missing(record, "schema")
    # a field may mean something else in an unknown version, so such a record is bad as a whole
    version = record["schema"]
    yield ~version.between(1, SCHEMA), F.concat(F.lit("schema: unknown version "), version.cast("string"))
    for name in ("id", "agent", "cluster", "group"):
        yield _missing(record, name)
        yield _no_name(record, name)
    yield ~F.length(record["id"]).between(1, _LONGEST_ID), f"id: not of 1 to {_LONGEST_ID} characters"


def _of_samples(settings: PipelineSettings, record: Column, now: Column) -> Rules:
    for name in _own(TRAFFIC_SAMPLE):
        yield _missing(record, name)
    for name in ("client_rack", "replica_rack", "election"):
        yield _no_name(record, name)
    yield ~record["topic"].rlike(_TOPIC), "topic: no name of a Kafka topic"
    start, length = record["window_start"], record["window_end"] - record["window_start"]
    for name in ("bytes", "records", "window_start", "window_end"):
        yield record[name] < 0, f"{name}: negative"
    yield length <= 0, "window: ends before it begins"
    yield length > _LONGEST_WINDOW_MS, "window: absurdly long"
    seconds = F.greatest(length / 1000, F.lit(float(MIN_SECONDS)))
    for name in ("bytes", "records"):
        yield record[name] / seconds > BYTES_PER_SECOND, f"{name}: absurdly many"
    yield from _out_of_time(settings, "window_start", start, now)
    yield ~record["method"].isin(*METHODS), "method: unknown"


def _of_states(settings: PipelineSettings, record: Column, now: Column) -> Rules:
    for name in _own(GROUP_STATE):
        yield _missing(record, name)
    for name in ("state", "assignor", "role"):
        yield _no_name(record, name)
    for name in ("at", "broker_racks"):
        yield record[name] < 0, f"{name}: negative"
    yield from _out_of_time(settings, "at", record["at"], now)
    yield ~record["kind"].isin(*KINDS), "kind: unknown"
    yield F.exists(record["racks"], lambda rack: rack.isNull()), "racks: one is null"
    for name, shape in (("members", MEMBERS), ("topics", TOPICS)):
        element = shape.elementType
        assert isinstance(element, StructType)  # noqa: S101 - for the types only: both are lists of structures
        yield F.exists(record[name], _incomplete(element)), f"{name}: one lacks a field"
    planning = record["planning"]
    yield planning.isNotNull() & _incomplete(PLANNING)(planning), "planning: lacks a field"
    yield from _sizes(record)
    yield from _within_lists(record)


def _sizes(record: Column) -> Rules:
    """Yield rules against states too large for an assignor's memory; all fields exist by then."""
    racks, members, topics = (F.size(record[name]).cast("long") for name in ("racks", "members", "topics"))
    partitions = F.aggregate(
        record["topics"], F.lit(0).cast("long"), lambda count, topic: count + F.size(topic["owner"])
    )
    yield racks > MAX_RACKS, f"racks: more than {MAX_RACKS}"
    yield partitions > MAX_PARTITIONS, f"topics: more than {MAX_PARTITIONS} partitions"
    yield partitions * racks > MAX_CELLS, f"topics: more than {MAX_CELLS} partitions times racks"
    yield members * topics > MAX_CELLS, f"members: more than {MAX_CELLS} members times topics"


def _within_lists(record: Column) -> Rules:
    """Yield rules against invalid names and rates within lists; all fields exist by then."""
    yield F.exists(record["racks"], lambda rack: ~rack.rlike(_NAME)), f"racks: {_NO_NAME}"
    yield F.exists(record["members"], lambda one: ~one["id"].rlike(_NAME)), f"members: id {_NO_NAME}"
    yield F.exists(record["members"], lambda one: ~one["client_id"].rlike(_NAME)), f"members: client_id {_NO_NAME}"
    yield F.exists(record["topics"], lambda one: ~one["name"].rlike(_TOPIC)), "topics: no name of a Kafka topic"
    yield F.exists(record["topics"], lambda one: F.exists(one["bytes_per_second"], _no_rate)), "topics: a rate is none"


def _no_rate(rate: Column) -> Column:
    """Return whether a rate is null, negative, too high, or NaN, which Spark orders above all numbers."""
    return rate.isNull() | ~rate.between(0.0, float(BYTES_PER_SECOND))


def _incomplete(element: StructType) -> Callable[[Column], Column]:
    needed = [name for name in element.names if name not in _MAY_BE_MISSING]

    def one(value: Column) -> Column:
        lacking = value.isNull()
        for name in needed:
            lacking = lacking | value[name].isNull()
        return lacking

    return one


def _own(shape: StructType) -> list[str]:
    """Return the required fields of one kind of record, without those of both kinds."""
    common = {"schema", "id", "agent", "cluster", "group"}
    return [name for name in shape.names if name not in common | _MAY_BE_NULL]


def _missing(record: Column, name: str) -> tuple[Column, str]:
    return record[name].isNull(), f"{name}: missing, or of the wrong type"


def _no_name(record: Column, name: str) -> tuple[Column, str]:
    return ~record[name].rlike(_NAME), f"{name}: {_NO_NAME}"


def _out_of_time(settings: PipelineSettings, name: str, moment: Column, now: Column) -> Rules:
    """Yield the rules against times too far in the future or in the past."""
    milliseconds = F.unix_millis(now)
    days = settings.late_days
    yield moment > milliseconds + _FUTURE_MS, f"{name}: in the future"
    yield moment < milliseconds - days * 86_400_000, f"{name}: more than {days} days ago"
