"""Converts records from Kafka to rows of the tables, as pure functions of data frames, and says which ones are bad.

The same functions work on a stream and on data at rest. A late record counts like any other: it is added to its
minute. Therefore the watermark, which bounds how long keys are remembered, uses the stream's clock, not the records'
times: with these, Spark would drop records that an agent buffered while Kafka was unavailable, and the totals would
stay wrong.

The rules for bad records, each with its reason in words, are the contract of `common.records`, and bounds that keep one
publisher from making sums wrong, filling the tables with invented days, or making a report too large to compute.
docs/pipeline.md lists them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import chain
from string import ascii_letters, digits
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import ArrayType, DataType, StructType, VariantType

from samerack.common.records import SCHEMA
from samerack.pipeline.schema import (
    GROUP_STATE,
    GROUP_STATES,
    KEPT_BYTES,
    KEY,
    MEMBERS,
    PLANNING,
    QUARANTINE,
    TEXT,
    TOPICS,
    TRAFFIC_SAMPLE,
    shape,
)
from samerack.settings.pipeline import PipelineSettings

SAMPLE: Final = "sample"
STATE: Final = "state"
BAD: Final = "bad"

_BROKEN: Final = "broken"
"""The field in which Spark's parser puts the text of a record that it could not read completely."""
_REPEATS: Final = "1 hour"
"""How long the stream remembers a record, so that one that comes again counts once: its state has a key for each."""
NEEDED_BEFORE: Final = ("key", "seen")
"""Columns of parsed records that no table needs: they only serve to de-duplicate."""

_OPTIONS: Final = {
    "columnNameOfCorruptRecord": _BROKEN,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
"""Of Spark's parser, which otherwise accepts more than JSON."""

BYTES_PER_SECOND: Final = 10**12
"""More than all members of a group read of one topic: ten network interfaces of 800 Gbit/s, the fastest Ethernet (IEEE
802.3df, 2024), of 10^11 bytes a second each. The same bound holds for records and for the rate of one partition."""
_MIN_SECONDS: Final = 60
"""A shorter window may hold as much as one of this length: what an agent detects late counts in its current window."""
LONGEST_NAME: Final = 1000
"""Characters of a name: of a cluster, group, member, client, rack, agent, election, assignor."""
_MAX_RACKS: Final = 1000
_MAX_PARTITIONS: Final = 10**6
_MAX_CELLS: Final = 10**8
"""Partitions times racks, and members times topics, of one state: assignors hold a byte for each."""
_METHODS: Final = ("estimated", "exact")
_KINDS: Final = ("classic", "consumer", "streams-classic", "streams", "share", "other")
_LONGEST_ID: Final = 64
_LONGEST_WINDOW_MS: Final = 3_600_000
"""Agents send windows of a minute at most."""
_FUTURE_MS: Final = 300_000
"""Clocks of hosts that are synchronised differ by less than a second."""
_NAME: Final = rf"\A[^\p{{Cc}}\p{{Zl}}\p{{Zp}}]{{0,{LONGEST_NAME}}}\z"
_LONGEST_TOPIC: Final = 249
_TOPIC: Final = rf"[a-zA-Z0-9._-]{{1,{_LONGEST_TOPIC}}}"
"""Topic names that Kafka accepts (org.apache.kafka.common.internals.Topic)."""


def _any_of(characters: str) -> str:
    """Return a pattern of one of these: Java finds a single ASCII character in a table, but tries range after range."""
    return f"[{re.escape(characters)}]"


_PLAIN_TEXT: Final = _any_of(
    "".join(chr(code) for code in range(0x20, 0x7F)).translate({ord(one): None for one in '"\\'})
)
"""Characters that a name may have and that mean nothing in JSON; those beyond ASCII are left to the rules."""
_PLAIN: Final = {
    "schema": str(SCHEMA),
    "id": f'"{_PLAIN_TEXT}+"',
    "topic": f'"{_any_of(ascii_letters + digits + "._-")}+"',
    "method": f'"(?:{"|".join(_METHODS)})"',
}
_PLAIN_SAMPLE: Final = (
    r"\A\{"
    + ",".join(
        f'"{field.name}":'
        + _PLAIN.get(field.name, f'"{_PLAIN_TEXT}*"' if field.dataType == TEXT else f"{_any_of(digits)}+")
        for field in TRAFFIC_SAMPLE
    )
    + r"\}\z"
)
"""A sample as agents write it: each field once, with its type, and nothing else. If Spark reads it and no text is too
long, only its numbers can be wrong, so that it needs no second parser and few rules."""
_AFTER: Final = "text after the JSON object"
_WRONG_TYPE: Final = "missing, or of the wrong type"
_HALF_CHARACTER: Final = r"(?i)\\ud[89ab]..(?!\\ud[c-f])|(?<!\\ud[89ab]..)\\ud[c-f]"
"""An escape of one half of a surrogate pair without the other, in a text without escaped backslashes."""
_NO_NAME: Final = f"longer than {LONGEST_NAME} characters, or with control characters"
_MAY_BE_NULL: Final = frozenset({"election", "rack_aware_fetch", "planning", "refusal"})
_MAY_BE_MISSING: Final = frozenset(
    {"balance_tolerance", "bytes_per_second", "capacity", "client", "loads", "max_partitions", "tasks", "tells_rack"}
    | {"weights"}
)

_Rules: TypeAlias = Iterator[tuple[Column, str | Column]]
"""Pairs of a condition under which a record is bad, and the reason."""


def parsed(raw: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Return Kafka's rows as samples, states and bad records, with the key for de-duplication.

    The key of a good record is a digest of its bytes, not its id: a publisher may use an id that another one is going
    to use, and a record must not count as a repetition of another one. Of a bad record only the first bytes are kept,
    so that long ones do not fill the memory.

    Args:
        raw: topic, partition, offset and value, as Spark's Kafka source gives them.
        settings: Topics and bounds.

    Returns:
        sort (sample, state, bad), key, seen, and three structures, of which each record has the one of its sort.
    """
    whole = F.concat(F.lit('{"record":'), F.col("value").cast("string"), F.lit("}"))
    is_sample = F.col("is_sample")
    read = raw.select(
        F.col("topic").alias("kafka_topic"),
        "partition",
        "offset",
        "value",
        F.current_timestamp().alias("seen"),
        (F.col("topic") == settings.traffic_topic).alias("is_sample"),
    ).select(
        "*",
        F.when(is_sample, _from_json(whole, record=TRAFFIC_SAMPLE)).alias("of_sample"),
        F.when(~is_sample, _from_json(whole, record=GROUP_STATE)).alias("of_state"),
    )
    judged = read.select("*", _reason(settings).alias("reason"))
    good = F.col("reason").isNull()
    place = F.concat_ws("/", "kafka_topic", "partition", "offset")
    return judged.select(
        F.when(~good, BAD).when(is_sample, SAMPLE).otherwise(STATE).alias("sort"),
        digest(F.when(good, F.col("value")).otherwise(place.cast("binary"))).alias("key"),
        "seen",
        F.when(good & is_sample, F.struct(*_of_minute(F.col("of_sample.record")))).alias("sample"),
        F.when(good & ~is_sample, F.col("of_state.record")).alias("state"),
        F.when(~good, F.struct(*_of_bad())).alias("bad"),
    )


def _of_minute(sample: Column) -> Iterator[Column]:
    """Yield the columns of a sample as a row of `traffic_by_minute`, without those that follow from others."""
    alone = F.coalesce(sample["election"], F.lit("")) == ""
    made = {
        "minute": F.date_trunc("minute", F.timestamp_millis(sample["window_start"])),
        "counted_by": F.when(alone, sample["agent"]).otherwise(sample["election"]),
    }
    for name in (*KEY, "bytes", "records"):
        yield made.get(name, sample[name]).alias(name)


def _of_bad() -> Iterator[Column]:
    """Yield the columns of a bad record as a row of `quarantine`, without those that follow from others."""
    made = {"raw": F.substring("value", 1, KEPT_BYTES), "topic": F.col("kafka_topic"), "at": F.col("seen")}
    for name in ("reason", "raw", "topic", "partition", "offset", "at"):
        yield made.get(name, F.col(name)).alias(name)


def digest(value: Column) -> Column:
    """Return the key of bytes: the first half of their SHA-256, as the stream remembers millions."""
    return F.substring(F.unhex(F.sha2(value, 256)), 1, 16)


def once(records: DataFrame) -> DataFrame:
    """Return every record once, even if it arrives several times; for streams."""
    return records.withWatermark("seen", _REPEATS).dropDuplicatesWithinWatermark(["key"])


def traffic(records: DataFrame) -> DataFrame:
    """Return the samples among parsed records: rows of `traffic_by_minute`."""
    found = records.where(F.col("sort") == SAMPLE).select("sample.*")
    # an agent's window is a minute by default: to add up a batch would shuffle it for nothing
    return found.withColumns({"samples": F.lit(1).cast("long"), "day": F.to_date("minute")})


def states(records: DataFrame) -> DataFrame:
    """Return the states among parsed records: rows of `group_states`."""
    found = records.where(F.col("sort") == STATE).select("state.*")
    at = F.timestamp_millis("at")
    return found.withColumns({"at": at, "day": F.to_date(at), "topics": _with_rates()}).select(*GROUP_STATES.names)


def quarantined(records: DataFrame) -> DataFrame:
    """Return the bad ones among parsed records, as rows of the table."""
    bad = records.where(F.col("sort") == BAD).select("bad.*")
    return bad.withColumns({"day": F.to_date("at"), "records": F.lit(1).cast("long")}).select(*QUARANTINE.names)


def _with_rates() -> Column:
    """Return the topics, with an empty list of rates where the agent did not know them."""
    return F.transform(
        "topics",
        lambda topic: topic.withField(
            "bytes_per_second", F.coalesce(topic["bytes_per_second"], F.array().cast("array<double>"))
        ),
    )


def _from_json(text: Column, **fields: DataType) -> Column:
    """Return these fields of a JSON object, and in `_BROKEN` the text if one of them is of another type."""
    return F.from_json(text, shape(**fields, **{_BROKEN: TEXT}), _OPTIONS)


def _reason(settings: PipelineSettings) -> Column:
    """Return the first reason why a record is bad, or null."""
    sample, state, now = F.col("of_sample.record"), F.col("of_state.record"), F.col("seen")
    of_sample, of_state = F.col(f"of_sample.{_BROKEN}"), F.col(f"of_state.{_BROKEN}")
    is_short = F.octet_length("value") <= LONGEST_NAME
    is_plain = F.col("is_sample") & is_short & F.col("value").cast("string").rlike(_PLAIN_SAMPLE)
    is_plain &= (
        of_sample.isNull() & (F.length(sample["id"]) <= _LONGEST_ID) & (F.length(sample["topic"]) <= _LONGEST_TOPIC)
    )
    samples = (_not_a_record(sample, of_sample, TRAFFIC_SAMPLE), _of_all(sample), _of_samples(settings, sample, now))
    states = (
        _not_a_record(state, of_state, GROUP_STATE),
        _of_all(state),
        _of_states(settings, state, of_state, now),
    )
    # a lambda is interpreted: Java would compile pages of code for the few records that are not plain
    other = F.transform(
        F.array("is_sample"), lambda is_sample: F.when(is_sample, _first(*samples)).otherwise(_first(*states))
    )
    return F.when(is_plain, _first(_of_windows(settings, sample, now))).otherwise(other[0])


def _first(*rules: _Rules) -> Column:
    """Return the reason of the first rule that holds, or null."""
    return F.coalesce(
        *(F.when(holds, F.lit(words) if isinstance(words, str) else words) for holds, words in chain(*rules))
    )


def _not_a_record(record: Column, broken: Column, fields: StructType) -> _Rules:
    raw, text = F.col("value"), F.col("value").cast("string")
    yield raw.isNull() | (F.length(raw) == 0), "empty"
    # the second parser runs only where the first one failed
    yield ~F.is_valid_utf8(raw) | (broken.isNotNull() & F.try_parse_json(text).isNull()), "not JSON"
    yield ~text.rlike(r"\A[ \t\r\n]*\{"), "not a JSON object"
    yield record.isNull(), _AFTER
    inexact = _inexact(text, record, fields)
    yield inexact.isNotNull(), inexact


def _inexact(text: Column, record: Column, fields: StructType) -> Column:
    """Return what Spark's parser of a schema passes over, null if there is nothing.

    The object was parsed as a field of another object, so that a closing brace too many ends nothing. Here it is parsed
    as the only element of a list, so that a closing bracket too many ends nothing either.
    """
    values = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
    known = record["schema"].between(1, SCHEMA)

    def reason(value: Column) -> Column:
        return (
            F.when(
                value.isNotNull() & F.try_variant_get(value, "$[1]", "variant").isNull(),
                F.when(known, _untyped(value, fields)),
            )
            .when(F.try_parse_json(text).isNotNull(), _AFTER)
            .when(F.replace(text, F.lit(r"\\")).rlike(_HALF_CHARACTER), "half of a surrogate pair")
            .when(text.rlike("[0-9]{1001}"), "not JSON")  # the other parser does not look at numbers of unknown fields
            .otherwise("a field twice")
        )

    # within a list, because each use of an expression is computed by itself
    return F.transform(F.array(values), reason)[0]


def _untyped(values: Column, fields: StructType) -> Column:
    """Return the reason if one of these fields should be text and is not, for the only value of a list."""
    kinds = {field.name: kind for field in fields if (kind := _as_variants(field.dataType)) is not None}
    found = F.try_variant_get(values, "$[0]", shape(**kinds).simpleString())

    def first(record: Column) -> Column:
        return F.coalesce(*(F.when(_is_no_text(record[name], kind), _mistyped(name)) for name, kind in kinds.items()))

    return F.transform(F.array(found), first)[0]


def _as_variants(kind: DataType) -> DataType | None:
    """Return a type with only its texts, each as a variant, which knows what it was in JSON; None without texts."""
    if isinstance(kind, ArrayType):
        element = _as_variants(kind.elementType)
        return None if element is None else ArrayType(element)
    if isinstance(kind, StructType):
        fields = {field.name: made for field in kind if (made := _as_variants(field.dataType)) is not None}
        return shape(**fields) if fields else None
    return VariantType() if kind == TEXT else None


def _is_no_text(value: Column, kind: DataType) -> Column:
    """Return whether a value of `_as_variants` has something that is neither text nor null."""
    if isinstance(kind, ArrayType):
        return F.exists(value, lambda element: _is_no_text(element, kind.elementType))
    if isinstance(kind, StructType):
        return reduce(Column.__or__, (_is_no_text(value[field.name], field.dataType) for field in kind))
    return F.coalesce(~F.schema_of_variant(value).isin("STRING", "VOID"), F.lit(False))  # noqa: FBT003 - a literal of Spark's


def _of_all(record: Column) -> _Rules:
    yield _missing(record, "schema")
    # a field may mean something else in an unknown version, so such a record is bad as a whole
    version = record["schema"]
    yield ~version.between(1, SCHEMA), F.concat(F.lit("schema: unknown version "), version.cast("string"))
    for name in ("id", "agent", "cluster", "group"):
        yield _missing(record, name)
        yield _no_name(record, name)
    yield ~F.length(record["id"]).between(1, _LONGEST_ID), f"id: not of 1 to {_LONGEST_ID} characters"


def _of_samples(settings: PipelineSettings, record: Column, now: Column) -> _Rules:
    for name in _own(TRAFFIC_SAMPLE):
        yield _missing(record, name)
    for name in ("client_rack", "replica_rack", "election"):
        yield _no_name(record, name)
    yield ~record["topic"].rlike(rf"\A{_TOPIC}\z"), "topic: no name of a Kafka topic"
    for name in ("bytes", "records", "window_start", "window_end"):
        yield record[name] < 0, f"{name}: negative"
    yield from _of_windows(settings, record, now)
    yield ~record["method"].isin(*_METHODS), "method: unknown"


def _of_windows(settings: PipelineSettings, record: Column, now: Column) -> _Rules:
    start, length = record["window_start"], record["window_end"] - record["window_start"]
    yield length <= 0, "window: ends before it begins"
    yield length > _LONGEST_WINDOW_MS, "window: absurdly long"
    seconds = F.greatest(length / 1000, F.lit(float(_MIN_SECONDS)))
    for name in ("bytes", "records"):
        yield record[name] / seconds > BYTES_PER_SECOND, f"{name}: absurdly many"
    yield from _out_of_time(settings, "window_start", start, now)


def _of_states(settings: PipelineSettings, record: Column, broken: Column, now: Column) -> _Rules:
    for name in _own(GROUP_STATE):
        yield _missing(record, name)
    for name in ("state", "assignor", "role", "refusal"):
        yield _no_name(record, name)
    for name in ("at", "broker_racks"):
        yield record[name] < 0, f"{name}: negative"
    yield from _out_of_time(settings, "at", record["at"], now)
    yield ~record["kind"].isin(*_KINDS), "kind: unknown"
    yield F.exists(record["racks"], lambda rack: rack.isNull()), "racks: one is null"
    for name, kind in (("members", MEMBERS), ("topics", TOPICS)):
        element = kind.elementType
        assert isinstance(element, StructType)  # noqa: S101 - for the types only: both are lists of structures
        yield F.exists(record[name], _incomplete(element)), _mistyped(name)
        yield F.exists(record[name], _has_null(element)), f"{name}: a list has null"
    planning = record["planning"]
    yield planning.isNotNull() & _incomplete(PLANNING)(planning), _mistyped("planning")
    for name in ("rack_aware_fetch", "planning", "members", "topics"):
        alone = _from_json(F.col("value").cast("string"), **{name: GROUP_STATE[name].dataType})
        yield broken.isNotNull() & alone[_BROKEN].isNotNull(), _mistyped(name)
    yield from _sizes(record)
    yield from _within_lists(record)


def _sizes(record: Column) -> _Rules:
    """Yield rules against states too large for an assignor's memory; all fields exist by then."""
    racks, members, topics = (F.size(record[name]).cast("long") for name in ("racks", "members", "topics"))
    partitions = F.aggregate(
        record["topics"], F.lit(0).cast("long"), lambda count, topic: count + F.size(topic["owner"])
    )
    yield racks > _MAX_RACKS, f"racks: more than {_MAX_RACKS}"
    yield partitions > _MAX_PARTITIONS, f"topics: more than {_MAX_PARTITIONS} partitions"
    yield partitions * racks > _MAX_CELLS, f"topics: more than {_MAX_CELLS} partitions times racks"
    yield members * topics > _MAX_CELLS, f"members: more than {_MAX_CELLS} members times topics"


def _within_lists(record: Column) -> _Rules:
    """Yield rules against invalid names and rates within lists; all fields exist by then."""
    yield F.exists(record["racks"], lambda rack: ~rack.rlike(_NAME)), f"racks: {_NO_NAME}"
    yield F.exists(record["members"], lambda one: ~one["id"].rlike(_NAME)), f"members: id {_NO_NAME}"
    yield F.exists(record["members"], lambda one: ~one["client_id"].rlike(_NAME)), f"members: client_id {_NO_NAME}"
    no_topic = F.exists(record["topics"], lambda one: ~one["name"].rlike(rf"\A{_TOPIC}\z"))
    yield no_topic, "topics: no name of a Kafka topic"
    yield (
        F.exists(record["topics"], lambda one: F.exists(one["bytes_per_second"], _no_rate)),
        "topics: a rate is out of range",
    )


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


def _has_null(element: StructType) -> Callable[[Column], Column]:
    """Return what says whether one of an element's lists has null, apart from rates, which have a rule of their own."""
    lists = [field for field in element if isinstance(field.dataType, ArrayType) and field.name != "bytes_per_second"]

    def one(value: Column) -> Column:
        return reduce(Column.__or__, (_null_within(value[field.name], field.dataType) for field in lists))

    return one


def _null_within(values: Column, kind: DataType) -> Column:
    if not isinstance(kind, ArrayType):
        return values.isNull()
    return F.coalesce(F.exists(values, lambda one: one.isNull() | _null_within(one, kind.elementType)), F.lit(False))  # noqa: FBT003


def _own(fields: StructType) -> list[str]:
    """Return the required fields of one kind of record, without those of both kinds."""
    common = {"schema", "id", "agent", "cluster", "group"}
    return [name for name in fields.names if name not in common | _MAY_BE_NULL]


def _missing(record: Column, name: str) -> tuple[Column, str]:
    return record[name].isNull(), f"{name}: {_WRONG_TYPE}"


def _mistyped(name: str) -> str:
    """Return the reason for something of the wrong type in a field that is there."""
    return (
        f"{name}: a field is {_WRONG_TYPE}" if name in {"members", "topics", "planning"} else f"{name}: {_WRONG_TYPE}"
    )


def _no_name(record: Column, name: str) -> tuple[Column, str]:
    return ~record[name].rlike(_NAME), f"{name}: {_NO_NAME}"


def _out_of_time(settings: PipelineSettings, name: str, moment: Column, now: Column) -> _Rules:
    """Yield the rules against times too far in the future or in the past."""
    milliseconds = F.unix_millis(now)
    days = settings.late_days
    yield moment > milliseconds + _FUTURE_MS, f"{name}: in the future"
    yield moment < milliseconds - days * 86_400_000, f"{name}: more than {days} days ago"
