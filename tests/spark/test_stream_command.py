"""`samerack pipeline stream` reports what is missing before it starts anything."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from lab.sandbox.admin import Admin
from samerack.cli.main import app
from samerack.common.errors import AgentError
from samerack.pipeline import tables
from samerack.pipeline.stream import check_topics
from samerack.settings.pipeline import PipelineSettings
from tests.spark.records import sample, state
from tests.spark.stream_process import COMMAND_SECONDS, Source, arguments, command, filled, in_tables, read_to_the_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refused(words: list[str]) -> tuple[int, str]:
    """Exit code and error line of a command that prints nothing else."""
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return done.returncode, line


def test_missing_topics_are_one_line(bootstrap: str, tmp_path: Path) -> None:
    """The line names the topics and their settings, and no table is made."""
    source = Source(bootstrap=bootstrap, traffic="nobody", states="no-one")
    code, line = refused(arguments(source, tmp_path / "tables"))
    assert code == 1
    assert f"neither nobody nor no-one exists at {bootstrap}" in line
    assert "pipeline.states_topic" in line
    assert not (tmp_path / "tables").exists()


def test_topics_whose_timestamps_anybody_may_write_are_reported(bootstrap: str) -> None:
    """A topic with default settings is reported; not one whose brokers set timestamps or bound them on both sides."""
    name = uuid.uuid4().hex[:12]
    configs = {
        f"free-{name}": {},
        f"stamped-{name}": {"message.timestamp.type": "LogAppendTime"},
        f"bounded-{name}": {f"message.timestamp.{side}.max.ms": "3600000" for side in ("before", "after")},
    }
    with Admin(bootstrap) as admin:
        for topic, config in configs.items():
            admin.create_topic(topic, [[1]], config=config)
    free, stamped, bounded = configs
    kafka = {"bootstrap.servers": bootstrap}
    _, (warning,) = check_topics(kafka, PipelineSettings(traffic_topic=free, states_topic=stamped))
    assert f"topic {free} takes any timestamp" in warning
    assert check_topics(kafka, PipelineSettings(traffic_topic=bounded, states_topic=stamped))[1] == []


def test_a_topic_that_is_left_out_is_read_when_it_comes(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """The stream reads the other topic, and what was published before the stream found the new one."""
    name = uuid.uuid4().hex[:12]
    source = Source(bootstrap=bootstrap, traffic=f"traffic-{name}", states=f"states-{name}")
    with Admin(bootstrap) as admin:
        admin.create_topic(source.traffic, [[1]])
        kafka, settings = {"bootstrap.servers": bootstrap}, PipelineSettings.model_validate(source.flags())
        assert [line for line in check_topics(kafka, settings)[1] if f"topic {source.states} does not exist" in line]
        read_to_the_end(spark, source, tmp_path)
        for topic in (source.states, f"{source.states}.more"):
            admin.create_topic(topic, [[1]])
    producer = Producer(kafka)
    for topic, number in ((source.states, 1), (f"{source.states}.more", 2)):
        producer.produce(topic, state(number))
    producer.produce(source.traffic, sample(1))
    assert producer.flush(30) == 0
    read_to_the_end(spark, source, tmp_path)
    (found,) = tables.read(spark, PipelineSettings(tables=str(tmp_path)), "group_states").collect()
    assert found["id"] == "state-1"
    assert in_tables(spark, tmp_path).quarantine == {}


def test_topics_that_a_fleet_is_simulated_into_must_exist(bootstrap: str) -> None:
    """The error names the command that creates a topic."""
    done = CliRunner().invoke(
        app,
        ["pipeline", "simulate", "kafka", "-b", bootstrap, "--days", "0.01", "-s", "pipeline.traffic_topic=nobody"],
    )
    assert done.exit_code == 1
    assert f"--bootstrap-server {bootstrap} --create --partitions 6 --topic nobody" in done.stderr


def test_an_absurd_timestamp_is_reported_with_its_cure(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """The error names the topic setting that prevents it; Spark cannot read such a record, and it cannot be skipped."""
    source = filled(bootstrap, [])
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(source.traffic, b"{}", timestamp=-(2**62))
    assert producer.flush(30) == 0
    with pytest.raises(AgentError, match=r"message\.timestamp\.type=LogAppendTime on both topics"):
        read_to_the_end(spark, source, tmp_path)


def test_a_wrong_setting_is_one_line(tmp_path: Path) -> None:
    """A setting without a counterpart in Spark's client, and an invalid value, end with exit code 2."""
    for key, value, words in (
        ("kafka.ssl.crl.location", "x", "has no equivalent"),
        ("pipeline.lost_records", "perhaps", "pipeline.lost_records: "),
    ):
        source = Source(bootstrap="127.0.0.1:1", traffic="t", states="s")
        done = CliRunner().invoke(app, ["pipeline", *arguments(source, tmp_path), "-s", f"{key}={value}"])
        assert (done.exit_code, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert words in line
