"""Runs the stream: one query from both topics to the three tables, with progress and an orderly stop.

There is one query and one batch function, because each query needs its own reader and checkpoint, and each batch takes
some tenths of a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType, StructField, StructType

from samerack.common.errors import AgentError
from samerack.pipeline import tables
from samerack.pipeline.quarantine import BROKEN, quarantined, reason
from samerack.pipeline.schema import (
    GROUP_STATE,
    GROUP_STATES,
    KEPT_BYTES,
    KEY,
    TRAFFIC_BY_MINUTE,
    TRAFFIC_SAMPLE,
    total,
)
from samerack.pipeline.stream_kafka import source_options
from samerack.settings.all_settings import Settings
from samerack.settings.pipeline import PipelineSettings

# Converts records from Kafka to rows of the tables, as pure functions of data frames.
#
# The same functions work on a stream and on data at rest. A late record counts like any other: it is added to its
# minute. Therefore the watermark, which bounds how long keys are remembered, uses the stream's clock, not the records'
# times: with these, Spark would drop records that an agent buffered while Kafka was unavailable, and the totals would
# stay wrong.

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


_WAIT_SECONDS: Final = 0.2
_MINUTE: Final = "yyyy-MM-dd HH:mm"
_QUERY: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch that was written to the tables.

    Attributes:
        number: its number; numbers continue after a restart.
        records: records read from Kafka.
        samples: samples among them that count.
        bad: records in quarantine.
        repeats: duplicates of earlier records.
        behind: records in Kafka that were not read yet; None where Spark does not know.
    """

    number: int
    records: int
    samples: int
    states: int
    bad: int
    repeats: int
    seconds: float
    behind: int | None

    @property
    def records_per_second(self) -> float:
        """Records per second of this batch."""
        return self.records / self.seconds if self.seconds else 0.0


class Writer:
    """Writes batches to the tables, each once; keeps their counts until the progress is shown."""

    def __init__(self, settings: PipelineSettings) -> None:
        """Prepare; the settings say where the tables are."""
        self._settings = settings
        self._counts: dict[int, Mapping[str, int]] = {}
        self._has_taken = False
        """Whether the tables name this stream as the one that writes them."""

    def __call__(self, records: DataFrame, number: int) -> None:
        """Write one batch."""
        spark = records.sparkSession
        records = records.drop(*NEEDED_BEFORE).persist()
        try:
            found = _found(records)
            stream = str(spark.sparkContext.getLocalProperty(_QUERY))
            if not self._has_taken:
                tables.take(spark, self._settings, stream)
                self._has_taken = True
            with tables.transaction(spark, writer=tables.writer_of(stream), number=number):
                if SAMPLE in found:
                    tables.add(by_minute(records), self._settings, within=_within(found[SAMPLE]))
                if STATE in found:
                    tables.append(states(records), self._settings, "group_states")
                if BAD in found:
                    tables.append(quarantined(records), self._settings, "quarantine")
            self._counts[number] = {sort: sum(row["count"] for row in rows) for sort, rows in found.items()}
        finally:
            records.unpersist()

    def counts(self, number: int) -> Mapping[str, int]:
        """Return and forget the number of records of a batch by sort."""
        return self._counts.pop(number, {})


def _found(records: DataFrame) -> dict[str, list[Row]]:
    """Return for each sort in a batch one row a day: count, first and last minute as text in the session's zone."""
    ends = (F.date_format(end("moment"), _MINUTE).alias(name) for name, end in (("first", F.min), ("last", F.max)))
    sums = (F.count(F.lit(1)).alias("count"), *ends)
    found: dict[str, list[Row]] = {}
    for row in records.groupBy("sort", "day").agg(*sums).collect():
        found.setdefault(row["sort"], []).append(row)
    return found


def _within(days: Iterable[Row]) -> str:
    """Return a condition on the rows of `traffic_by_minute` to read: a late record must not cause a full read."""
    parts = (
        f"(kept.day = DATE'{row['day']}' AND kept.minute BETWEEN TIMESTAMP'{row['first']}' "
        f"AND TIMESTAMP'{row['last']}')"
        for row in days
    )
    return f"({' OR '.join(parts)})"


def start(spark: SparkSession, settings: Settings, writer: Writer, *, to_the_end: bool) -> StreamingQuery:
    """Start the query at the checkpoint, or at the start of the topics; `to_the_end` stops it at their current end.

    Raises:
        SettingsError: A Kafka setting that Spark has no counterpart for.
        AgentError: The tables cannot be made or read, or are not those of the checkpoint.
    """
    ours = settings.pipeline
    reader = spark.readStream.format("kafka").options(**source_options(settings.kafka))
    reader = reader.option("subscribe", f"{ours.traffic_topic},{ours.states_topic}")
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", ours.batch_records)
    records = reader.option("failOnDataLoss", ours.lost_records == "stop").load()
    tables.create(spark, ours)
    tables.check_checkpoint(spark, ours)
    sink = once(parsed(records, ours)).writeStream.foreachBatch(writer).queryName("samerack")
    sink = sink.option("checkpointLocation", tables.checkpoint(ours))
    if to_the_end:
        return sink.trigger(availableNow=True).start()
    return sink.trigger(processingTime=f"{ours.trigger_seconds} seconds").start()


def follow(query: StreamingQuery, writer: Writer, stop: Event, show: Callable[[Batch], None]) -> None:
    """Show each batch until the query ends by itself, or after the batch that runs when `stop` is set.

    Raises:
        AgentError: The query failed.
    """
    shown = -1
    asked = False
    try:
        while True:
            ended = query.awaitTermination(_WAIT_SECONDS)  # type: ignore[arg-type]  # takes parts of a second
            before = shown
            for progress in query.recentProgress:
                if progress["batchId"] > shown:
                    shown = progress["batchId"]
                    if progress["numInputRows"]:
                        show(_batch(progress, writer.counts(shown)))
            if ended:
                return
            # the running batch is completed; one that starts meanwhile is repeated at the next start
            if asked and (shown > before or not query.status["isTriggerActive"]):
                SparkSession.active().sparkContext.setLogLevel("OFF")  # an interrupted batch is no failure
                query.stop()
                return
            asked = stop.is_set()
    except StreamingQueryException as error:
        raise _explained(error) from None


def _batch(progress: Mapping[str, Any], counts: Mapping[str, int]) -> Batch:
    records = progress["numInputRows"]
    return Batch(
        number=progress["batchId"],
        records=records,
        samples=counts.get(SAMPLE, 0),
        states=counts.get(STATE, 0),
        bad=counts.get(BAD, 0),
        repeats=records - sum(counts.values()),
        seconds=progress["batchDuration"] / 1000,
        behind=_behind(progress["sources"]),
    )


def _behind(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the number of offsets not read yet; None where Spark does not know the latest, as after a start."""
    behind = 0
    for source in sources:
        latest, end = (json.loads(source[name] or "null") for name in ("latestOffset", "endOffset"))
        if latest is None or end is None:
            return None
        behind += sum(sum(partitions.values()) for partitions in latest.values())
        behind -= sum(sum(partitions.values()) for partitions in end.values())
    return behind


def _explained(error: Exception) -> AgentError:
    text = str(error)
    if own := re.search(r"^common\.errors\.\w+: (.+)$", text, re.MULTILINE):
        return AgentError(own[1])
    if "KafkaRecordToRowConverter" in text and "ArithmeticException" in text:
        return AgentError(
            "a record has a timestamp that Spark cannot read, and every restart fails on it: set "
            "message.timestamp.type=LogAppendTime on both topics, so that brokers write timestamps; then delete the "
            "records up to that one with kafka-delete-records.sh and set pipeline.lost_records to skip"
        )
    if "failOnDataLoss" in text or "KAFKA_DATA_LOSS" in text:
        return AgentError(
            "records that the stream had not read are gone from Kafka (retention, or recreated topics): set "
            "pipeline.lost_records to skip to continue with the rest; the totals of those records are lost"
        )
    causes = re.findall(r"^(?:Caused by: )?((?:java|org|io)\.[\w.$]+: .+)$", text, re.MULTILINE)
    return AgentError(
        f"the stream has failed: {causes[-1] if causes else tables.first_line(error)}; the written data is intact, and "
        "a restart continues where it stopped"
    )
