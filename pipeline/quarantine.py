"""What makes a record bad, each condition by name, and the rows of bad records.

The rules are `common.records`' contract, and a few bounds that keep one broken agent from spoiling sums. What must not
enter: where records come from, where rows go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import StructType

from common.settings.pipeline import PipelineSettings
from pipeline.schema import GROUP_STATE, MEMBERS, QUARANTINE, TOPICS, TRAFFIC_SAMPLE

BROKEN: Final = "broken"
"""Where Spark's parser puts the text of a record that it could not read whole."""
MOST: Final = 2**50
"""Bytes or records of one sample that nobody reads; more would overflow a sum and stop the stream."""
METHODS: Final = ("estimated", "exact")
KINDS: Final = ("classic", "consumer", "streams-classic", "streams", "other")
_LONGEST_ID: Final = 64
_MAY_BE_NULL: Final = frozenset({"election", "rack_aware_fetch"})
_MAY_BE_MISSING: Final = frozenset({"bytes_per_second", "tells_rack"})


def reason(settings: PipelineSettings, *, is_sample: Column, raw: Column, record: Column, now: Column) -> Column:
    """The first reason why a record is bad, or null.

    Args:
        settings: The bounds.
        is_sample: Whether it came from the topic of samples.
        raw: Its bytes.
        record: What was parsed of them.
        now: The stream's clock.
    """
    rules = [*_not_a_record(raw, record), *_of_all(record), *_of_samples(settings, is_sample, record, now)]
    rules += _of_states(settings, ~is_sample, record, now)
    rules.append((record[BROKEN].isNotNull(), "a field within members or topics: of the wrong type"))
    chain = F.when(F.lit(False), F.lit(None).cast("string"))  # noqa: FBT003 - a literal of Spark's
    for holds, words in rules:
        chain = chain.when(holds, F.lit(words))
    return chain


def quarantined(records: DataFrame) -> DataFrame:
    """The bad ones among parsed records, as the table has them."""
    bad = records.where(F.col("wrong").isNotNull()).withColumnRenamed("wrong", "reason")
    return bad.withColumn("at", F.col("seen")).select(*QUARANTINE.names)


def _not_a_record(raw: Column, record: Column) -> Iterator[tuple[Column, str]]:
    text = raw.cast("string")
    broken = record.isNull() | record[BROKEN].isNotNull()
    yield raw.isNull() | (F.length(raw) == 0), "empty"
    # the second parser is asked only where the first one stumbled
    yield ~F.is_valid_utf8(raw) | (broken & F.try_parse_json(text).isNull()), "not JSON"
    yield ~F.ltrim(text).startswith("{"), "not a JSON object"


def _of_all(record: Column) -> Iterator[tuple[Column, str]]:
    for name in ("schema", "id", "agent", "cluster", "group"):
        yield _missing(record, name)
    yield record["schema"] < 1, "schema: less than 1"
    yield ~F.length(record["id"]).between(1, _LONGEST_ID), f"id: not of 1 to {_LONGEST_ID} characters"


def _of_samples(
    settings: PipelineSettings, is_sample: Column, record: Column, now: Column
) -> Iterator[tuple[Column, str]]:
    for name in _own(TRAFFIC_SAMPLE):
        missing, words = _missing(record, name)
        yield is_sample & missing, words
    start, length = record["window_start"], record["window_end"] - record["window_start"]
    for name in ("bytes", "records", "window_start", "window_end"):
        yield is_sample & (record[name] < 0), f"{name}: negative"
    for name in ("bytes", "records"):
        yield is_sample & (record[name] > MOST), f"{name}: absurdly many"
    yield is_sample & (length <= 0), "window: ends before it begins"
    yield is_sample & (length > _milliseconds(settings.longest_window_seconds)), "window: absurdly long"
    yield is_sample & _in_the_future(settings, start, now), "window_start: in the future"
    yield is_sample & ~record["method"].isin(*METHODS), "method: unknown"


def _of_states(
    settings: PipelineSettings, is_state: Column, record: Column, now: Column
) -> Iterator[tuple[Column, str]]:
    for name in _own(GROUP_STATE):
        missing, words = _missing(record, name)
        yield is_state & missing, words
    for name in ("at", "broker_racks"):
        yield is_state & (record[name] < 0), f"{name}: negative"
    yield is_state & _in_the_future(settings, record["at"], now), "at: in the future"
    yield is_state & ~record["kind"].isin(*KINDS), "kind: unknown"
    yield is_state & F.exists(record["racks"], lambda rack: rack.isNull()), "racks: one is null"
    for name, shape in (("members", MEMBERS), ("topics", TOPICS)):
        element = shape.elementType
        assert isinstance(element, StructType)  # noqa: S101 - for the types only: both are lists of structures
        yield is_state & F.exists(record[name], _incomplete(element)), f"{name}: one lacks a field"


def _incomplete(element: StructType) -> Callable[[Column], Column]:
    needed = [name for name in element.names if name not in _MAY_BE_MISSING]

    def one(value: Column) -> Column:
        lacking = value.isNull()
        for name in needed:
            lacking = lacking | value[name].isNull()
        return lacking

    return one


def _own(shape: StructType) -> list[str]:
    """The fields of one kind of record that it may not lack, beyond those of both kinds."""
    common = {"schema", "id", "agent", "cluster", "group"}
    return [name for name in shape.names if name not in common | _MAY_BE_NULL]


def _missing(record: Column, name: str) -> tuple[Column, str]:
    return record[name].isNull(), f"{name}: missing, or of the wrong type"


def _in_the_future(settings: PipelineSettings, moment: Column, now: Column) -> Column:
    return moment > F.unix_millis(now) + _milliseconds(settings.future_seconds)


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
