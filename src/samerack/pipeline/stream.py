"""Converts records from Kafka to rows of the tables, as pure functions of data frames.

The same functions work on a stream and on data at rest. A late record counts like any other: it is added to its
minute. Therefore the watermark, which bounds how long keys are remembered, uses the stream's clock, not the records'
times: with these, Spark would drop records that an agent buffered while Kafka was unavailable, and the totals would
stay wrong.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StringType, StructField, StructType

from samerack.pipeline.quarantine import BROKEN, reason
from samerack.pipeline.schema import GROUP_STATE, GROUP_STATES, KEPT_BYTES, KEY, TRAFFIC_BY_MINUTE, TRAFFIC_SAMPLE
from samerack.pipeline.sums import total
from samerack.settings.pipeline import PipelineSettings

SAMPLE: Final = "sample"
STATE: Final = "state"
BAD: Final = "bad"

_REPEATS: Final = "1 hour"
"""How long the stream remembers a record, so that one that comes again counts once: its state has a key for each."""
NEEDED_BEFORE: Final = ("key", "window_start", "window_end")
"""Columns of parsed records that no table needs: they only serve to judge and de-duplicate."""

RECORD: Final = StructType(
    [
        *TRAFFIC_SAMPLE.fields,
        *(field for field in GROUP_STATE.fields if field.name not in TRAFFIC_SAMPLE.names),
        StructField(BROKEN, StringType()),
    ]
)
"""The fields of both kinds: one parser reads each record once and ignores unknown fields."""


def parsed(raw: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Return Kafka's rows with every field of the record, the reason if it is bad, and the key for de-duplication.

    The key of a good record is a digest of its bytes, not its id: a publisher may use an id that another one is going
    to use, and a record must not count as a repetition of another one. Of a bad record only the first bytes are kept,
    so that long ones do not fill the memory.

    Args:
        raw: topic, partition, offset and value, as Spark's Kafka source gives them.
        settings: Topics and bounds.

    Returns:
        sort (sample, state, bad), wrong, key, seen, moment, day, its place in Kafka, `raw` for bad ones only, and the
        record's fields, null for bad ones.
    """
    named = raw.select(
        F.col("topic").alias("kafka_topic"),
        "partition",
        "offset",
        "value",
        F.current_timestamp().alias("seen"),
        (F.col("topic") == settings.traffic_topic).alias("is_sample"),
        F.from_json(F.col("value").cast("string"), RECORD, {"columnNameOfCorruptRecord": BROKEN}).alias("record"),
    )
    judged = named.withColumn(
        "wrong",
        reason(settings, is_sample=F.col("is_sample"), raw=F.col("value"), record=F.col("record"), now=F.col("seen")),
    )
    good = F.col("wrong").isNull()
    fields = {name: F.col("record")[name] for name in RECORD.names if name not in {BROKEN, "topic"}}
    moment = F.timestamp_millis(F.when(F.col("is_sample"), F.col("record.window_start")).otherwise(F.col("record.at")))
    place = F.concat_ws("/", "kafka_topic", "partition", "offset")
    return judged.select(
        F.when(~good, BAD).when(F.col("is_sample"), SAMPLE).otherwise(STATE).alias("sort"),
        "wrong",
        F.when(good, F.sha2("value", 256)).otherwise(place).alias("key"),
        "seen",
        F.when(good, moment).alias("moment"),
        "partition",
        "offset",
        F.when(~good, F.substring("value", 1, KEPT_BYTES)).alias("raw"),
        F.when(good & F.col("is_sample"), F.col("record.topic")).otherwise(F.col("kafka_topic")).alias("topic"),
        *(F.when(good, field).alias(name) for name, field in fields.items()),
    ).withColumn("day", F.to_date(F.coalesce("moment", "seen")))


def once(records: DataFrame) -> DataFrame:
    """Return every record once, even if it arrives several times; for streams."""
    return records.withWatermark("seen", _REPEATS).dropDuplicatesWithinWatermark(["key"])


def by_minute(records: DataFrame) -> DataFrame:
    """Return the samples among parsed records, summed by minute: rows of `traffic_by_minute`."""
    alone = F.coalesce(F.col("election"), F.lit("")) == ""
    made = {
        "minute": F.date_trunc("minute", F.col("moment")),
        "counted_by": F.when(alone, F.col("agent")).otherwise(F.col("election")),
    }
    sums = (*(total(name).alias(name) for name in ("bytes", "records")), F.count(F.lit(1)).alias("samples"))
    keys = [made.get(name, F.col(name)).alias(name) for name in KEY]
    added = records.where(F.col("sort") == SAMPLE).groupBy(*keys, "day").agg(*sums)
    return added.select(*TRAFFIC_BY_MINUTE.names)


def states(records: DataFrame) -> DataFrame:
    """Return the states among parsed records: rows of `group_states`."""
    found = records.where(F.col("sort") == STATE).withColumn("at", F.col("moment"))
    return found.withColumn("topics", _with_rates()).select(*GROUP_STATES.names)


def _with_rates() -> Column:
    """Return the topics, with an empty list of rates where the agent did not know them."""
    return F.transform(
        "topics",
        lambda topic: topic.withField(
            "bytes_per_second", F.coalesce(topic["bytes_per_second"], F.array().cast("array<double>"))
        ),
    )
