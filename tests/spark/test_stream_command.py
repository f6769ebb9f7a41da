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
from samerack.pipeline.stream import check_topics
from tests.spark.stream_process import COMMAND_SECONDS, Source, arguments, command, filled, read_to_the_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refused(words: list[str]) -> tuple[int, str]:
    """Exit code and error line of a command that prints nothing else."""
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return done.returncode, line


def test_a_missing_topic_is_one_line(bootstrap: str, tmp_path: Path) -> None:
    """The line names the topic and its settings, and no table is made."""
    source = Source(bootstrap=bootstrap, traffic="nobody", states="nobody")
    code, line = refused(arguments(source, tmp_path / "tables"))
    assert code == 1
    assert f"topic nobody does not exist at {bootstrap}" in line
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
    assert check_topics({"bootstrap.servers": bootstrap}, configs) == [f"free-{name}"]


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
