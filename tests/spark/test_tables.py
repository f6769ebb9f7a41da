"""The tables: created, written exactly once, read, and the errors if that is impossible."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from pydantic import BaseModel
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import ArrayType, DataType, StructType

from samerack.common.errors import AgentError
from samerack.common.records import GroupState, MemberState, TopicState, TrafficSample
from samerack.pipeline import parsing, schema, stream, tables
from samerack.pipeline.schema import FULL
from samerack.settings.pipeline import PipelineSettings
from tests import pipeline_tables
from tests.spark.records import SETTINGS, raw, sample, state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = ("east", "orders", "clicks", "rack-a", "rack-b", "exact", "samerack")
NOON = datetime(2025, 11, 1, 12)  # noqa: DTZ001 - Spark takes times without a zone; the session's is UTC
WRITES = 3


@pytest.fixture
def settings(tmp_path: Path) -> PipelineSettings:
    """Settings with tables of the test's own."""
    return PipelineSettings(tables=str(tmp_path / "tables"))


def sums(spark: SparkSession, *values: tuple[str, int]) -> DataFrame:
    """Rows to be added, each with its group and bytes."""
    rows = [("east", group, *ROW[2:], NOON, size, 1, 1, date(2025, 11, 1)) for group, size in values]
    return spark.createDataFrame(rows, schema.TRAFFIC_BY_MINUTE)


def kept(spark: SparkSession, settings: PipelineSettings) -> dict[str, int]:
    """The bytes of each group."""
    rows = tables.read(spark, settings, "traffic_by_minute").groupBy("group").agg(schema.total("bytes").alias("bytes"))
    return {row["group"]: row["bytes"] for row in rows.collect()}


def test_sums_are_appended_once_for_each_number(spark: SparkSession, settings: PipelineSettings) -> None:
    """A batch that is written a second time changes nothing; the next one adds rows to the same keys and to others."""
    tables.create(spark, settings)
    for number, values in ((0, [("a", 1), ("b", 2)]), (0, [("a", 1), ("b", 2)]), (1, [("b", 3), ("c", 4)])):
        with tables.transaction(spark, writer="test", number=number, late_days=90):
            tables.append(sums(spark, *values), settings, "traffic_by_minute")
    assert kept(spark, settings) == {"a": 1, "b": 5, "c": 4}


def test_a_sum_stops_where_it_would_not_fit(spark: SparkSession, made: PipelineSettings) -> None:
    """This also holds for a row in which an older version stored more."""
    tables.append(sums(spark, ("old", 2**63 - 1)), made, "traffic_by_minute")
    for values in ([("a", FULL - 1), ("b", 1)], [("a", FULL), ("b", 2), ("old", 1)]):
        tables.append(sums(spark, *values), made, "traffic_by_minute")
    assert kept(spark, made) == {"a": FULL, "b": 3, "old": FULL}


def test_the_default_place_is_a_folder_beside_the_caller(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting is always a path, although Delta reads a relative path as a table's name."""
    monkeypatch.chdir(tmp_path)
    settings = PipelineSettings()
    tables.create(spark, settings)
    assert kept(spark, settings) == {}
    assert (tmp_path / "samerack-tables" / "traffic_by_minute").is_dir()


def test_writers_that_meet_begin_anew_and_lose_nothing(spark: SparkSession, made: PipelineSettings) -> None:
    """Two writers that append to the same day at the same time, several times each, lose nothing."""

    def write(writer: str) -> None:
        own = spark.newSession()
        for number in range(WRITES):
            with tables.transaction(own, writer=writer, number=number, late_days=90):
                tables.append(sums(own, ("a", 1)), made, "traffic_by_minute")

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, ("one", "another")))
    assert kept(spark, made) == {"a": 2 * WRITES}


def test_making_tables_again_keeps_them(spark: SparkSession, settings: PipelineSettings) -> None:
    """A restarted stream finds its tables, with the comments of their columns."""
    tables.create(spark, settings)
    tables.append(sums(spark, ("a", 1)), settings, "traffic_by_minute")
    tables.create(spark, settings)
    assert kept(spark, settings) == {"a": 1}
    for name, shape in schema.TABLES.items():
        assert tables.read(spark, settings, name).schema == shape


def older(rows: DataFrame, settings: PipelineSettings, name: str) -> None:
    """Write a table as an older version made it, without the newest columns of the rows."""
    rows.write.format("delta").partitionBy("day").save(tables.location(settings, name))


def test_a_table_of_an_older_version_gets_the_new_columns(spark: SparkSession, settings: PipelineSettings) -> None:
    """It can be read as it is; the stream adds the column, and older rows keep null there."""
    older(sums(spark, ("a", 1), ("b", 2)).drop("counted_by"), settings, "traffic_by_minute")

    def found() -> set[tuple[str, str | None, int]]:
        rows = tables.read(spark, settings, "traffic_by_minute").collect()
        return {(row["group"], row["counted_by"], row["bytes"]) for row in rows}

    assert found() == {("a", None, 1), ("b", None, 2)}
    for _ in range(2):  # a table with the column stays unchanged
        tables.create(spark, settings)
    for size in (4, 8):
        tables.append(sums(spark, ("b", size)), settings, "traffic_by_minute")
    assert found() == {("a", None, 1), ("b", None, 2), ("b", "samerack", 4), ("b", "samerack", 8)}


def test_states_of_an_older_version_stay_beside_newer_ones(spark: SparkSession, settings: PipelineSettings) -> None:
    """A newer field of members is null in older states, so that the record's default applies."""
    newer = parsing.states(parsing.parsed(raw(spark, states=[state(1)]), SETTINGS))

    old = newer.withColumn("members", F.transform("members", lambda one: one.dropFields("tells_rack")))
    older(old.withColumn("id", F.lit("older")), settings, "group_states")
    tables.create(spark, settings)
    tables.append(newer, settings, "group_states")
    rows = tables.read(spark, settings, "group_states").collect()
    assert {row["id"]: [one["tells_rack"] for one in row["members"]] for row in rows} == {
        "older": [None],
        "state-1": [True],
    }


def test_a_missing_table_names_the_command_that_makes_it(spark: SparkSession, settings: PipelineSettings) -> None:
    """A missing table, or other files in its place, give one error that says what to do."""
    with pytest.raises(AgentError, match=r"no table group_states at .*: run samerack pipeline stream first"):
        tables.read(spark, settings, "group_states")
    Path(tables.location(settings, "quarantine")).mkdir(parents=True)
    (Path(tables.location(settings, "quarantine")) / "notes.txt").write_text("no table")
    with pytest.raises(AgentError, match="no table quarantine at"):
        tables.opened(spark, settings, "quarantine")


def test_tables_where_nobody_may_write_are_one_error(spark: SparkSession, tmp_path: Path) -> None:
    """If the place is a file, the error names the setting."""
    (tmp_path / "file").write_text("")
    with pytest.raises(AgentError, match=r"cannot be made: .*pipeline\.tables"):
        tables.create(spark, PipelineSettings(tables=str(tmp_path / "file")))


def test_tables_with_rows_and_no_checkpoint_are_refused(spark: SparkSession, made: PipelineSettings) -> None:
    """A stream without its position would count twice; with empty tables it may start."""
    tables.check_checkpoint(spark, made)
    tables.append(sums(spark, ("a", 1)), made, "traffic_by_minute")
    with pytest.raises(AgentError, match=r"their checkpoint is not at .*/_checkpoint: .* pipeline\.checkpoint"):
        tables.check_checkpoint(spark, made)
    (Path(made.tables) / "_checkpoint").mkdir()
    (Path(made.tables) / "_checkpoint" / "metadata").touch()
    tables.check_checkpoint(spark, made)


class _Files:
    """A stream of states from files in place of Kafka, which writes tables with a checkpoint of its own."""

    def __init__(self, spark: SparkSession, folder: Path, settings: PipelineSettings) -> None:
        self._spark, self._folder, self.settings = spark, folder, settings
        self._sent = 0
        folder.mkdir()

    def send(self) -> None:
        """Add a file with one more record, and run the stream until it has read that."""
        rows = raw(self._spark, states=[state(self._sent + 1)])
        self.send_all(rows.withColumn("offset", F.lit(self._sent + 1).cast("long")))

    def send_all(self, rows: DataFrame) -> None:
        """Add a file with these rows of Kafka's, and run the stream until it has read them."""
        self._sent += 1
        rows.write.parquet(str(self._folder / f"file-{self._sent}"))
        self.run()

    def run(self) -> None:
        """Run the stream to the end of its files."""
        source = self._spark.readStream.schema(raw(self._spark).schema).parquet(str(self._folder / "*"))
        records = parsing.once(parsing.parsed(source, self.settings))
        writer = stream.Writer(self.settings)
        sink = records.writeStream.foreachBatch(writer)
        sink = sink.option("checkpointLocation", tables.checkpoint(self.settings)).trigger(availableNow=True)
        stream.follow(sink.start(), writer, Event(), lambda _: None)

    def count(self) -> int:
        """How many states the table has."""
        return tables.read(self._spark, self.settings, "group_states").count()


@pytest.fixture
def files(spark: SparkSession, made: PipelineSettings, tmp_path: Path) -> _Files:
    """A stream that has read nothing yet."""
    return _Files(spark, tmp_path / "sent", SETTINGS.model_copy(update={"tables": made.tables}))


def test_a_small_batch_is_one_file_in_each_table(spark: SparkSession, files: _Files) -> None:
    """Found: as many files as the cluster has parts, as Spark ignores the hint `rebalance` in streams with a state."""
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    try:
        good = {
            "samples": [sample(number, group=f"g{number}") for number in range(30)],
            "states": [state(number) for number in range(30)],
        }
        files.send_all(raw(spark, samples=[*good["samples"], *(b"nonsense",) * 30], states=good["states"]))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    for name in ("traffic_by_minute", "group_states", "quarantine"):
        assert len(tables.read(spark, files.settings, name).inputFiles()) == 1, name


@pytest.mark.promise("A checkpoint that is older than the tables is refused: Delta would skip what comes next.")
def test_a_checkpoint_from_before_is_refused(spark: SparkSession, files: _Files, tmp_path: Path) -> None:
    """Found: 500 of 500 records were lost in silence. A checkpoint of a stream killed in a batch goes on."""
    files.send()
    kept, checkpoint = tmp_path / "kept", Path(tables.checkpoint(files.settings))
    shutil.copytree(checkpoint, kept)
    for _ in range(2):
        files.send()
    for file in ("2", ".2.crc"):
        (checkpoint / "commits" / file).unlink()  # as if it had been killed before
    tables.check_checkpoint(spark, files.settings)
    files.run()
    assert files.count() == 3
    shutil.rmtree(checkpoint)
    shutil.copytree(kept, checkpoint)
    with pytest.raises(AgentError, match=r"the checkpoint is older than the table"):
        tables.check_checkpoint(spark, files.settings)


def test_a_batch_goes_on_with_the_bound_that_it_began_with(spark: SparkSession, files: _Files) -> None:
    """Found: where a kill is followed by another `late_days`, a record was in no table, or in two."""
    files.send()
    checkpoint = Path(tables.checkpoint(files.settings))
    for file in (*checkpoint.glob("commits/*"), *checkpoint.glob("offsets/*1*")):
        file.unlink()  # as if it had been killed in its first batch
    with pytest.raises(AgentError, match=f"which is not complete, by pipeline.late_days: {SETTINGS.late_days}"):
        tables.check_checkpoint(spark, files.settings.model_copy(update={"late_days": 1}))
    tables.check_checkpoint(spark, files.settings)
    files.run()
    tables.check_checkpoint(spark, files.settings.model_copy(update={"late_days": 1}))
    assert files.count() == 1


@pytest.mark.parametrize("lost", ["traffic_by_minute", "group_states"])
def test_new_tables_with_an_old_checkpoint_are_refused(spark: SparkSession, files: _Files, lost: str) -> None:
    """Found: what the stream had read before was in no table, in silence; of quarantine nothing is missing."""
    files.send()
    shutil.rmtree(tables.location(files.settings, "quarantine"))
    tables.create(spark, files.settings)
    tables.check_checkpoint(spark, files.settings)
    shutil.rmtree(tables.location(files.settings, lost))
    tables.create(spark, files.settings)
    with pytest.raises(
        AgentError, match=rf"{lost} is new, .* has written \d batches elsewhere: .* and a new checkpoint"
    ):
        tables.check_checkpoint(spark, files.settings)


def test_another_kafka_cluster_is_refused(spark: SparkSession, files: _Files) -> None:
    """Its offsets mean other records; tables without a checkpoint, which are empty, may get another cluster."""
    for cluster in ("one", "other", "", "other"):
        tables.check_source(spark, files.settings, cluster)
    files.send()
    with pytest.raises(AgentError, match=r"has offsets of the Kafka cluster other, and this one is one"):
        tables.check_source(spark, files.settings, "one")
    tables.check_source(spark, files.settings, "other")


def test_an_address_without_a_connector_says_so(spark: SparkSession) -> None:
    """Found: the error asked whether the user may write there."""
    with pytest.raises(AgentError, match=r"Spark has no connector for this address .*S3AFileSystem"):
        tables.create(spark, PipelineSettings(tables="s3a://fleet/samerack"))


def test_a_clock_that_was_ahead_loses_nothing(spark: SparkSession, files: _Files) -> None:
    """Found: Spark drops what it reads before the latest time that it knows, and it was shown as read twice."""
    files.send()
    metadata = json.dumps({"nextBatchWatermarkMs": int((time.time() + 86_400) * 1000)}, separators=(",", ":"))
    commit = Path(tables.checkpoint(files.settings)) / "commits" / "0"
    commit.with_name(".0.crc").unlink()
    before = commit.read_text()
    commit.write_text(f"v1\n{metadata}")
    with pytest.raises(AgentError, match=r"has read records at .* UTC, which is in the future: .* clock"):
        tables.check_checkpoint(spark, files.settings)
    commit.write_text(before)
    tables.check_checkpoint(spark, files.settings)


def test_a_clock_that_goes_back_ends_the_stream(spark: SparkSession, files: _Files) -> None:
    """The batch is repeated by the next start, as it was not written."""
    writer = stream.Writer(files.settings, wall_clock=lambda: next(times))
    records = parsing.parsed(raw(spark, states=[state(1)]), files.settings)
    times = iter((7200.0, 5401.0, 5399.0))
    for number in range(2):
        writer(records, number)
    with pytest.raises(AgentError, match="this machine's clock went back by 30 minutes"):
        writer(records, 2)
    assert files.count() == 2


@pytest.mark.promise("A second stream with a checkpoint of its own is refused by the tables of the first.")
def test_tables_know_their_stream(spark: SparkSession, files: _Files, tmp_path: Path) -> None:
    """Found: two streams wrote everything twice. The second is refused at its start, or at its first batch."""
    other = _Files(
        spark, tmp_path / "other", files.settings.model_copy(update={"checkpoint": str(tmp_path / "second")})
    )
    files.send()
    with pytest.raises(AgentError, match=r"^\S+ is written by another stream"):
        other.send()
    with pytest.raises(AgentError, match="is written by another stream"):
        tables.check_checkpoint(spark, other.settings)
    files.send()
    assert files.count() == 2


def test_of_two_streams_that_begin_together_one_is_refused(spark: SparkSession, made: PipelineSettings) -> None:
    """Both find tables that nobody writes; Delta accepts one claim, and the other stream then sees whose it is."""
    both = Barrier(2)
    owner = tables._owner

    def seen_by_both(*of: Any) -> str:
        found = owner(*of)
        with suppress(BrokenBarrierError):
            both.wait(5)
        return found

    with patch.object(tables, "_owner", seen_by_both), ThreadPoolExecutor(2) as pool:
        takes = [pool.submit(tables.take, spark, made, stream) for stream in ("first", "second")]
    errors = [error for one in takes if (error := one.exception()) is not None]
    assert len(errors) == 1
    assert isinstance(errors[0], AgentError)
    assert "is written by another stream" in str(errors[0])


def test_the_page_shows_the_tables_as_they_are() -> None:
    """The page docs/pipeline-tables.md equals the output for the current shapes."""
    page = Path(__file__).parents[2] / "docs" / "pipeline-tables.md"
    assert page.read_text() == pipeline_tables.page(), "run: python -m tests.pipeline_tables > docs/pipeline-tables.md"


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (TrafficSample, schema.TRAFFIC_SAMPLE),
        (GroupState, schema.GROUP_STATE),
        (MemberState, schema.MEMBERS),
        (TopicState, schema.TOPICS),
    ],
)
def test_shapes_of_records_have_the_fields_of_the_contract(model: type[BaseModel], shape: DataType) -> None:
    """Exactly the fields that an agent writes are read, under their names in JSON."""
    struct = shape.elementType if isinstance(shape, ArrayType) else shape
    assert isinstance(struct, StructType)
    assert set(struct.names) == {info.alias or name for name, info in model.model_fields.items()}


def test_a_state_passes_through_spark_unchanged(spark: SparkSession) -> None:
    """The shape reads what the contract writes: types agree, not only names."""
    text = state(1).decode()
    parsed: Any = (
        spark.createDataFrame([(text,)], "text string")
        .selectExpr(f"to_json(from_json(text, '{schema.GROUP_STATE.simpleString()}')) AS text")
        .head()
    )
    assert json.loads(parsed["text"]) == {key: value for key, value in json.loads(text).items() if value is not None}
