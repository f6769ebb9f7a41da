"""Runs the stream: one query from both topics to the three tables, with progress and an orderly stop.

There is one query and one batch function, because each query needs its own reader and checkpoint, and each batch takes
some tenths of a second. Kafka settings have librdkafka's names, and are converted to those of Spark's Kafka source.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # exported in fact
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from samerack.auth.identities import AWS_MSK_IAM
from samerack.auth.kafka_config import for_librdkafka, secrets_of
from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline import maintenance, tables
from samerack.pipeline.batches import write
from samerack.pipeline.parsing import BAD, NEEDED_BEFORE, SAMPLE, STATE, once, parsed
from samerack.settings.all_settings import Settings
from samerack.settings.pipeline import PipelineSettings

_WAIT_SECONDS: Final = 0.2
_HOUR: Final = 3600.0
_DAY: Final = 86_400.0
"""Seconds from a stream's start to its first maintenance, and from one to the next."""
_LEAP: Final = _HOUR / 2
"""A clock may go back by this much between two batches: Spark drops what is an hour older than the latest."""
_QUERY: Final = "sql.streaming.queryId"
_GROUPS: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Makes Spark ask for offsets as a member of a group; otherwise it needs permissions on topics alone."""

_SAME: Final = frozenset(
    {
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "sasl.kerberos.service.name",
        "socket.connection.setup.timeout.ms",
        "ssl.key.password",
    }
)
_FILES: Final[Mapping[str, tuple[str, str]]] = {
    "ssl.ca.location": ("ssl.truststore.certificates", "ssl.truststore.type"),
    "ssl.certificate.location": ("ssl.keystore.certificate.chain", "ssl.keystore.type"),
    "ssl.key.location": ("ssl.keystore.key", "ssl.keystore.type"),
}
"""librdkafka gets files, Spark their content: the workers of a Spark cluster do not have the files."""
_LOGIN: Final[Mapping[str, str]] = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
_SECURED_BY: Final = ("sasl.", "ssl.", "enable.sasl.", "enable.ssl.")
_REQUEST_SECONDS: Final = 15.0
_STAMPED_BY: Final = "message.timestamp.type"
_STAMPS_WITHIN: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_GREATEST_STAMP: Final = 2**63 // 1000 - 10**13
"""Milliseconds from now, in either direction, that Spark can still read: it counts in microseconds."""


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
    """Writes batches to the tables, each once, and maintains these; keeps counts until the progress is shown."""

    def __init__(
        self,
        settings: PipelineSettings,
        *,
        report: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; the settings say where the tables are, and `report` is called with each step of maintenance."""
        self._settings = settings
        self._report, self._clock, self._wall_clock = report, clock, wall_clock
        self._latest = 0.0
        self._maintained_from = clock() + _HOUR
        self._counts: dict[int, Mapping[str, int]] = {}
        self._has_taken = False
        """Whether the tables name this stream as the one that writes them."""

    def __call__(self, records: DataFrame, number: int) -> None:
        """Write one batch.

        Raises:
            AgentError: The clock went back, so that Spark may have dropped the batch's records; it is repeated later.
        """
        now = self._wall_clock()
        if now < self._latest - _LEAP:
            raise AgentError(
                f"this machine's clock went back by {(self._latest - now) / 60:.0f} minutes, and Spark drops records "
                "that it reads at such a time: correct the clock, and start again. Nothing is lost"
            )
        self._latest = max(self._latest, now)
        spark = records.sparkSession
        records = records.drop(*NEEDED_BEFORE).persist()
        try:
            stream = str(spark.sparkContext.getLocalProperty(_QUERY))
            if not self._has_taken:
                tables.take(spark, self._settings, stream)
                self._has_taken = True
            self._counts[number] = write(records, self._settings, writer=tables.writer_of(stream), number=number)
        finally:
            records.unpersist()
        if self._clock() >= self._maintained_from:
            self._maintain(spark)

    def _maintain(self, spark: SparkSession) -> None:
        """Maintain the tables between two batches, so that nothing else writes; a failure is only reported."""
        pause = _DAY
        try:
            maintenance.maintain(spark, self._settings, today=datetime.now(UTC).date(), progress=self._report)
        except (AgentError, PySparkException, Py4JJavaError) as error:
            pause = _HOUR
            self._report(f"maintenance has failed, and is tried again in an hour: {tables.first_line(error)}")
        self._maintained_from = self._clock() + pause

    def counts(self, number: int) -> Mapping[str, int]:
        """Return and forget the number of records of a batch by sort."""
        return self._counts.pop(number, {})


def start(
    spark: SparkSession, settings: Settings, writer: Writer, *, to_the_end: bool, cluster: str = ""
) -> StreamingQuery:
    """Start the query at the checkpoint, or at the start of the topics.

    `to_the_end` stops it at their current end, and `cluster` is the id of the Kafka cluster; "" if it has none.

    Raises:
        SettingsError: A Kafka setting that Spark has no counterpart for.
        AgentError: The tables cannot be made or read, or are not those of the checkpoint.
    """
    ours = settings.pipeline
    reader = spark.readStream.format("kafka").options(**source_options(settings.kafka))
    # names would have to exist; of a pattern, topics that come later are read from their start
    reader = reader.option("subscribePattern", rf"^(\Q{ours.traffic_topic}\E|\Q{ours.states_topic}\E)$")
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", ours.batch_records)
    records = reader.option("failOnDataLoss", ours.lost_records == "stop").load()
    tables.create(spark, ours)
    tables.check_checkpoint(spark, ours)
    tables.check_source(spark, ours, cluster)
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
            for known in query.recentProgress:
                progress = json.loads(known.json)  # what Spark said: PySpark 4.0 and 4.1 make no JSON of the offsets
                if progress["batchId"] > shown:
                    shown = progress["batchId"]
                    counts = writer.counts(shown)
                    if progress["numInputRows"]:
                        show(_batch(progress, counts))
            if ended:
                return
            # the running batch is completed; one that starts meanwhile is repeated at the next start
            if asked and (shown > before or not query.status["isTriggerActive"]):
                SparkSession.active().sparkContext.setLogLevel("OFF")  # an interrupted batch is not a failure
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
    """Return the number of offsets not read yet; None where Spark does not say the latest, as after a start."""
    try:
        return sum(_offsets(source["latestOffset"]) - _offsets(source["endOffset"]) for source in sources)
    except (AttributeError, KeyError, TypeError):  # each source of Spark has a form of its own
        return None


def _offsets(topics: Mapping[str, Mapping[str, int]]) -> int:
    return sum(sum(partitions.values()) for partitions in topics.values())


def _explained(error: Exception) -> AgentError:
    text = str(error)
    if own := re.search(rf"^{re.escape(AgentError.__module__)}\.\w+: (.+)$", text, re.MULTILINE):
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
    if refused := re.search(r"(Topic|Group)AuthorizationException: (.+)$", text, re.MULTILINE):
        cure = "allow its user READ on both topics" if refused[1] == "Topic" else f"remove {_GROUPS} from pipeline.conf"
        return AgentError(
            f"the brokers refuse the stream ({refused[2]}): {cure} (docs/permissions.md), and start it again; it "
            "continues where it stopped"
        )
    causes = re.findall(r"^(?:Caused by: )?((?:java|org|io)\.[\w.$]+: .+)$", text, re.MULTILINE)
    return AgentError(
        f"the stream has failed: {causes[-1] if causes else tables.first_line(error)}; the written data is intact, and "
        "a restart continues where it stopped"
    )


def source_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return options of Spark's Kafka source for settings in librdkafka's names, without those only librdkafka has.

    Raises:
        SettingsError: A setting that secures the connection has no counterpart, or a file cannot be read.
    """
    given: dict[str, str] = {}
    for key, text in kafka.items():
        if key in _SAME:
            given[key] = text
        elif key == "security.protocol":
            given[key] = text.upper()
        elif key in {"sasl.mechanism", "sasl.mechanisms"}:
            if text.upper() == AWS_MSK_IAM:
                raise SettingsError(f"kafka.{key}: Spark's Kafka client has no {AWS_MSK_IAM}; use SCRAM or TLS here")
            given["sasl.mechanism"] = text.upper()
        elif key == "ssl.endpoint.identification.algorithm":
            given[key] = "" if text.lower() == "none" else text
        elif key in _FILES:
            name, kind = _FILES[key]
            given |= {name: _content(key, text), kind: "PEM"}
        elif key.startswith(_SECURED_BY) and key not in {"sasl.username", "sasl.password"}:
            raise SettingsError(f"kafka.{key}: Spark's Kafka client has no equivalent; remove it")
    if "sasl.username" in kafka:
        given["sasl.jaas.config"] = _login(given.get("sasl.mechanism", ""), kafka)
    return {f"kafka.{key}": text for key, text in given.items()}


def _content(key: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"kafka.{key}: {path} cannot be read ({error}); name a file in PEM") from None


def _login(mechanism: str, kafka: Mapping[str, str]) -> str:
    if mechanism not in _LOGIN:
        raise SettingsError(
            f"kafka.sasl.mechanism: {mechanism or 'missing'}; with sasl.username it is one of {', '.join(_LOGIN)}"
        )
    user, password = (_quoted(kafka.get(f"sasl.{key}", "")) for key in ("username", "password"))
    return f"org.apache.kafka.common.security.{_LOGIN[mechanism]} required username={user} password={password};"


def _quoted(text: str) -> str:
    # a line break within quotes would end the text, and Java's error would show the rest
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


@contextmanager
def without_secrets(kafka: Mapping[str, str]) -> Iterator[None]:
    """Remove passwords, keys and tokens of these settings from the block's errors, which may contain Java's text."""
    try:
        yield
    except AgentError as error:
        text = str(error)
        for secret in sorted(secrets_of(kafka), key=len, reverse=True):
            text = text.replace(secret, "***").replace(_quoted(secret)[1:-1], "***")
        raise AgentError(text) from None


def check_topics(kafka: Mapping[str, str], settings: PipelineSettings) -> tuple[str, list[str]]:
    """Check that a topic exists: Spark would wait for one without a word.

    Returns:
        The cluster's id, "" if it has none, and warnings: one topic is missing, as agents may leave either out; or a
        topic accepts any timestamp from a publisher, where brokers show that: Spark fails on an absurd timestamp, and
        again at every restart.

    Raises:
        SettingsError: librdkafka refuses a setting.
        AgentError: No broker answers, or there is neither topic.
    """
    brokers = kafka["bootstrap.servers"]
    wanted = (settings.traffic_topic, settings.states_topic)
    try:
        client = AdminClient({**for_librdkafka(kafka)})
    except (KafkaException, ValueError, TypeError) as error:
        raise SettingsError(f"kafka: {error}") from None
    try:
        found = client.list_topics(timeout=_REQUEST_SECONDS)
    except KafkaException as error:
        raise AgentError(
            f"no broker answers at {brokers} ({error.args[0].str()}): correct kafka.*, or start the broker"
        ) from None
    there = found.topics
    missing = [topic for topic in wanted if topic not in there]
    if len(missing) == len(wanted):
        raise AgentError(
            f"neither {' nor '.join(missing)} exists at {brokers}, or may be described: create them, let an agent "
            "publish, or set the right ones in pipeline.traffic_topic and pipeline.states_topic"
        )
    warnings = [
        f"topic {topic} does not exist at {brokers}, or may not be described: it is read as soon as it does"
        for topic in missing
    ]
    cluster: str | None = getattr(found, "cluster_id", None)  # its type says that it is always None
    return cluster or "", warnings + [
        f"topic {topic} takes any timestamp from publishers, and an absurd one stops this stream: set "
        "message.timestamp.type=LogAppendTime on it"
        for topic in wanted
        if topic in there and _is_stamped_freely(client, topic)
    ]


def _is_stamped_freely(client: AdminClient, topic: str) -> bool:
    """Return whether publishers may write any timestamp; False where brokers do not show the configuration."""
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        found = client.describe_configs([asked], request_timeout=_REQUEST_SECONDS)[asked].result(_REQUEST_SECONDS)
    except (KafkaException, TimeoutError):
        return False
    values = {name: entry.value for name, entry in found.items()}
    if values.get(_STAMPED_BY) != "CreateTime":
        return False
    return any(int(values.get(name) or 2**63) > _GREATEST_STAMP for name in _STAMPS_WITHIN)
