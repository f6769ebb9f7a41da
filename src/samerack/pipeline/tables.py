"""The pipeline's Delta tables: how they are created, read, and written exactly once.

Where two processes change the same files, the second writer repeats its operation.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Final

from delta import exceptions
from delta.tables import DeltaTable
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline.schema import TABLES
from samerack.settings.pipeline import PipelineSettings

_TRIES: Final = 10
_PAUSE_SECONDS: Final = 0.5
_CONFLICTS: Final = (
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentTransactionException,
    exceptions.ConcurrentWriteException,
    exceptions.DeltaConcurrentModificationException,
    exceptions.MetadataChangedException,
)
"""Delta's errors for the second of two concurrent writers; in Python they have no common base class."""
_OWNER: Final = "samerack.stream"
"""The property of a table that names the stream which writes it."""
_COUNTED: Final = ("traffic_by_minute", "group_states")
"""Tables that have what was counted; without rows of the others nothing is missing from a report."""
_WATERMARK: Final = re.compile(rb'"(?:batch|nextBatch)WatermarkMs":(\d+)')
"""In the files of Spark's checkpoint."""
_SOURCE: Final = "samerack.kafka"
"""The property of `traffic_by_minute` that has the id of the Kafka cluster from which the stream reads."""
_LATEST: Final = 200
"""Commits of a table that are searched for the stream's last one: maintenance adds a few for each day."""
_ANEW: Final = "start anew: with new tables (pipeline.tables) and a new checkpoint"
_NAME_THE_RIGHT_ONE: Final = f"Set pipeline.checkpoint to the latest checkpoint of these tables, or {_ANEW}"
_COMMENT: Final = "spark.databricks.delta.commitInfo.userMetadata"
_WRITER: Final = "spark.databricks.delta.write.txnAppId"
_NUMBER: Final = "spark.databricks.delta.write.txnVersion"
_NO_TABLE: Final = (
    *("PATH_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_NOT_FOUND", "is not a Delta table"),
    "TABLE_OR_VIEW_NOT_FOUND",
)
_NO_CONNECTOR: Final = ("ClassNotFoundException", "UnsupportedFileSystemException", "No FileSystem for scheme")
_SCHEMA: Final = re.compile(r"\w+\.\w+")


def in_catalogue(settings: PipelineSettings) -> bool:
    """Return whether the tables are in a schema of a catalogue, and not in a folder."""
    return _SCHEMA.fullmatch(settings.tables) is not None


def location(settings: PipelineSettings, name: str) -> str:
    """Return the location of a table; folders as absolute paths, because Delta reads a relative one as a name."""
    if in_catalogue(settings):
        return f"{settings.tables}.{name}"
    place = settings.tables if ":/" in settings.tables else str(Path(settings.tables).absolute())
    return f"{place.rstrip('/')}/{name}"


def _named(settings: PipelineSettings, name: str) -> str:
    """Return what SQL calls a table."""
    place = location(settings, name)
    return place if in_catalogue(settings) else "delta.`{}`".format(place.replace("`", "``"))


def checkpoint(settings: PipelineSettings) -> str:
    """Return the location of the stream's checkpoint.

    Raises:
        SettingsError: None is set, and the tables have no folder for it.
    """
    if in_catalogue(settings) and not settings.checkpoint:
        raise SettingsError(
            f"pipeline.checkpoint is empty, and pipeline.tables ({settings.tables}) is a schema of a catalogue: name a "
            f"folder or address for the checkpoint (./{settings.tables} is a folder of tables)"
        )
    return settings.checkpoint or location(settings, "_checkpoint")


def create(spark: SparkSession, settings: PipelineSettings) -> None:
    """Create missing tables, and add missing columns to tables of an older version.

    Raises:
        AgentError: The location cannot be written, or has other content.
    """
    for name, shape in TABLES.items():
        with _explained(settings, name, "made"):
            named = _named(settings, name)
            spark.sql(f"CREATE TABLE IF NOT EXISTS {named} ({shape.toDDL()}) USING delta PARTITIONED BY (day)")
            if not set(shape.names) <= set(opened(spark, settings, name).toDF().columns):
                append(spark.createDataFrame([], shape), settings, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a checkpoint says of its stream.

    Attributes:
        stream: the stream's id, which Spark gave it; empty where it cannot be read.
        planned: the number of the last batch whose records are decided; a start repeats it if it was not committed.
        committed: the number of the last complete batch; -1 if there is none.
        watermark: the time before which Spark drops what it reads, in milliseconds since 1970.
    """

    stream: str
    planned: int
    committed: int
    watermark: int


def read_checkpoint(spark: SparkSession, settings: PipelineSettings) -> Checkpoint | None:
    """Return what the stream's checkpoint says; None if there is none."""
    place = checkpoint(settings)
    try:
        lines = spark.read.text(f"{place}/metadata").collect()
    except AnalysisException:
        return None
    stream = json.loads(lines[0]["value"])["id"] if lines else ""
    try:
        files = (
            spark.read.format("binaryFile").load(f"{place}/{{offsets,commits}}/*").select("path", "content").collect()
        )
    except AnalysisException:
        files = []
    found = [(folder, int(name)) for row in files for folder, name in [row["path"].split("/")[-2:]] if name.isdecimal()]
    marks = [int(mark) for row in files for mark in _WATERMARK.findall(row["content"])]
    return Checkpoint(
        stream=stream,
        planned=max((number for folder, number in found if folder == "offsets"), default=-1),
        committed=max((number for folder, number in found if folder == "commits"), default=-1),
        watermark=max(marks, default=0),
    )


def check_checkpoint(spark: SparkSession, settings: PipelineSettings) -> None:
    """Check that what the stream is going to write is neither in the tables already nor taken for that.

    Raises:
        AgentError: A table has rows, and there is no checkpoint: the stream would count everything again. There is one
            of a stream that had other tables. Another stream writes the tables. The checkpoint is from before the last
            batch in a table: Delta would skip the next batches, whatever they have, as it knows their numbers. The last
            batch was written in part, with another bound for late records. Or the clock was ahead of today's: Spark
            would drop what it reads until then.
    """
    found = read_checkpoint(spark, settings)
    if found is None:
        if not all(read(spark, settings, name).isEmpty() for name in TABLES):
            raise AgentError(
                f"the tables in {settings.tables} have rows, but their checkpoint is not at {checkpoint(settings)}: "
                f"records in Kafka would count twice. {_NAME_THE_RIGHT_ONE}"
            )
        return
    if found.watermark > time.time() * 1000:
        until = datetime.fromtimestamp(found.watermark / 1000, UTC)
        raise AgentError(
            f"the checkpoint at {checkpoint(settings)} has read records at {until:%Y-%m-%d %H:%M} UTC, which is in the "
            "future: Spark would drop what comes until then. Correct this machine's clock, or start again after that"
        )
    for name in TABLES:
        place, owner = location(settings, name), _owner(spark, settings, name)
        _check_owner(settings, name, owner, found.stream)
        if name in _COUNTED and not owner and found.committed >= 0 and read(spark, settings, name).isEmpty():
            raise AgentError(
                f"{place} is new, and the checkpoint at {checkpoint(settings)} is of a stream that has written "
                f"{found.committed + 1} batches elsewhere: their records would be missing. {_NAME_THE_RIGHT_ONE}"
            )
        last, late_days = _last_batch(spark, settings, name, found.stream)
        if last > found.planned:
            raise AgentError(
                f"the checkpoint at {checkpoint(settings)} ends with batch {found.planned}, and {place} has batch "
                f"{last} of the same stream: the checkpoint is older than the table, and the next records would be "
                f"lost. {_NAME_THE_RIGHT_ONE}"
            )
        if last > found.committed and late_days != str(settings.late_days):
            raise AgentError(
                f"{place} has batch {last}, which is not complete, by pipeline.late_days: {late_days}. By another "
                "number its records could be lost or count twice: start once more with this one"
            )


def check_source(spark: SparkSession, settings: PipelineSettings, cluster: str) -> None:
    """Check that the checkpoint has offsets of this Kafka cluster, and keep its id with the tables; "" is unknown.

    Raises:
        AgentError: It has those of another one: records would be lost or count twice.
    """
    known = properties(spark, settings, "traffic_by_minute").get(_SOURCE, "")
    if cluster in ("", known):
        return
    if known and read_checkpoint(spark, settings) is not None:
        raise AgentError(
            f"the checkpoint at {checkpoint(settings)} has offsets of the Kafka cluster {known}, and this one is "
            f"{cluster}: records would be lost or count twice. Name the right one in kafka.bootstrap.servers, or "
            f"{_ANEW}"
        )
    set_property(spark, settings, "traffic_by_minute", _SOURCE, cluster)


def take(spark: SparkSession, settings: PipelineSettings, stream: str) -> None:
    """Record in each table which stream writes it; of two that try at the same time the second fails.

    Raises:
        AgentError: Another stream writes one of the tables.
    """

    def take_one(name: str) -> None:
        before = version(spark, settings, name)
        owner = _owner(spark, settings, name)
        _check_owner(settings, name, owner, stream)
        if owner:
            return
        own(name, stream)
        # Delta does not hold against each other what two streams set: the later one gives way
        first = _first_owner(spark, settings, name, since=before)
        if first != stream:
            own(name, first)
        _check_owner(settings, name, first, stream)

    def own(name: str, owner: str) -> None:
        set_property(spark, settings, name, _OWNER, owner)

    for name in TABLES:
        patiently(partial(take_one, name))


def _owner(spark: SparkSession, settings: PipelineSettings, name: str) -> str:
    """Return the id of the stream that writes a table; empty if none has."""
    return properties(spark, settings, name).get(_OWNER, "")


def properties(spark: SparkSession, settings: PipelineSettings, name: str) -> Mapping[str, str]:
    """Return the properties of a table."""
    return opened(spark, settings, name).detail().select("properties").collect()[0]["properties"] or {}


def set_property(spark: SparkSession, settings: PipelineSettings, name: str, key: str, text: str | None) -> None:
    """Set a property of a table; None removes it."""
    change = f"UNSET TBLPROPERTIES IF EXISTS ('{key}')" if text is None else f"SET TBLPROPERTIES ('{key}' = '{text}')"
    spark.sql(f"ALTER TABLE {_named(settings, name)} {change}")


def _first_owner(spark: SparkSession, settings: PipelineSettings, name: str, *, since: int) -> str:
    """Return the id of the first stream that was recorded in a table after a version."""
    commits = opened(spark, settings, name).history().where(F.col("version") > since).orderBy("version")
    changes = (json.loads((row["operationParameters"] or {}).get("properties", "{}")) for row in commits.collect())
    return next(str(found[_OWNER]) for found in changes if _OWNER in found)


def _check_owner(settings: PipelineSettings, name: str, owner: str, stream: str) -> None:
    if owner and owner != stream:
        raise AgentError(
            f"{location(settings, name)} is written by another stream ({owner}; the stream of {checkpoint(settings)} "
            f"is {stream}): every record would count twice. {_NAME_THE_RIGHT_ONE}"
        )


def _last_batch(spark: SparkSession, settings: PipelineSettings, name: str, stream: str) -> tuple[int, str]:
    """Return the number of the stream's last batch in a table, -1 if its latest history has none, and its late_days."""
    of = writer_of(stream)
    history = opened(spark, settings, name).history(_LATEST).select("userMetadata").collect()
    batches = (str(row["userMetadata"]).split() for row in history)
    return next((int(batch[1]), batch[2]) for batch in (*batches, [of, "-1", ""]) if batch[0] == of)


def writer_of(stream: str) -> str:
    """Return the name under which a stream writes."""
    return f"samerack/{stream}"


def read(spark: SparkSession, settings: PipelineSettings, name: str, *, version: int | None = None) -> DataFrame:
    """Return the rows of a table, those that it has now or had in a version; columns that it lacks are null.

    Raises:
        AgentError: It does not exist or cannot be read.
    """
    with _explained(settings, name, "read"):
        at = {} if version is None else {"versionAsOf": str(version)}
        rows = spark.read.format("delta").options(**at).table(_named(settings, name))
    lacking = [column for column in TABLES[name].fields if column.name not in rows.columns]
    return rows.withColumns({column.name: F.lit(None).cast(column.dataType) for column in lacking})


def read_now(spark: SparkSession, settings: PipelineSettings, name: str) -> DataFrame:
    """Return the rows that a table has now; later reads of the frame have the same ones, whatever is written meanwhile.

    Raises:
        AgentError: It does not exist or cannot be read.
    """
    return read(spark, settings, name, version=version(spark, settings, name))


def exists(spark: SparkSession, settings: PipelineSettings, name: str) -> bool:
    """Return whether there is this table, which older versions may lack."""
    place = location(settings, name)
    return spark.catalog.tableExists(place) if in_catalogue(settings) else DeltaTable.isDeltaTable(spark, place)


def version(spark: SparkSession, settings: PipelineSettings, name: str) -> int:
    """Return the latest version of a table.

    Raises:
        AgentError: It does not exist or cannot be read.
    """
    number: int = opened(spark, settings, name).history(1).collect()[0]["version"]
    return number


def opened(spark: SparkSession, settings: PipelineSettings, name: str) -> DeltaTable:
    """Return a table to be changed.

    Raises:
        AgentError: It does not exist or cannot be read.
    """
    with _explained(settings, name, "read"):
        return DeltaTable.forName(spark, _named(settings, name))


@contextmanager
def transaction(spark: SparkSession, *, writer: str, number: int, late_days: int) -> Iterator[None]:
    """Within the block, Delta skips a write to a table if this writer has already made the write of this number.

    A block may write to each table only once: Delta takes a second write for a repetition. The commits also say by
    which `pipeline.late_days` the records were judged.
    """
    spark.conf.set(_WRITER, writer)
    spark.conf.set(_NUMBER, str(number))
    spark.conf.set(_COMMENT, f"{writer} {number} {late_days}")
    try:
        yield
    finally:
        for name in (_WRITER, _NUMBER, _COMMENT):
            spark.conf.unset(name)


def append(rows: DataFrame, settings: PipelineSettings, name: str) -> None:
    """Add rows, in as many files for each day as there are parts of the rows."""
    added = rows.write.format("delta").mode("append").option("mergeSchema", "true")
    patiently(lambda: added.saveAsTable(_named(settings, name)))


def replace(rows: DataFrame, settings: PipelineSettings, name: str, *, days: Iterable[date]) -> None:
    """Put rows in the place of all rows of these days, in one file for each day."""
    these = ", ".join(f"DATE'{day}'" for day in days)
    by_day = rows.repartition("day").write.format("delta").mode("overwrite").option("replaceWhere", f"day IN ({these})")
    patiently(lambda: by_day.saveAsTable(_named(settings, name)))


def patiently(write: Callable[[], object]) -> None:
    """Write, and retry if another writer changed the same files: the stream and maintenance may conflict.

    Raises:
        AgentError: Every try had a conflict.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            write()
        except _CONFLICTS as error:
            if attempt == _TRIES:
                raise AgentError(
                    f"another writer changed the same files {_TRIES} times in a row ({first_line(error)}); does a "
                    "second stream write these tables?"
                ) from None
            time.sleep(_PAUSE_SECONDS * attempt)
        else:
            return


def first_line(error: Exception) -> str:
    """Return the first line of an error of Spark or Java, which may have a hundred lines."""
    text = str(error.java_exception if isinstance(error, Py4JJavaError) else error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


@contextmanager
def _explained(settings: PipelineSettings, name: str, done: str) -> Iterator[None]:
    place = location(settings, name)
    try:
        yield
    except AnalysisException as error:
        if any(words in str(error) for words in _NO_TABLE):
            raise AgentError(
                f"no table {name} at {place}: run samerack pipeline stream first, or name its folder in pipeline.tables"
            ) from None
        raise AgentError(f"{place} cannot be {done}: {first_line(error)}") from None
    except (PySparkException, Py4JJavaError) as error:
        if any(words in str(error) for words in _NO_CONNECTOR):
            raise AgentError(
                f"{place} cannot be {done}: Spark has no connector for this address ({first_line(error)}); add its "
                "jars, as docs/image.md shows"
            ) from None
        raise AgentError(
            f"{place} cannot be {done}: {first_line(error)}; is pipeline.tables right, and may this user write there?"
        ) from None
    except Py4JError as error:
        if "does not exist in the JVM" not in str(error):
            raise
        raise AgentError(
            f"these jars are not those of this Spark ({first_line(error)}): docs/pipeline.md lists what works"
        ) from None
