"""How a session starts, and the errors if it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline import session
from samerack.settings.pipeline import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(settings: PipelineSettings) -> None:
    """Open a session, and close it at once."""
    with session.opened(settings, name="test"):
        pass


@pytest.mark.promise("A session of the documented jars reads and writes Delta tables.")
def test_a_session_from_the_settings_reads_and_writes_delta(spark: SparkSession, tmp_path: Path) -> None:
    """A table that the session writes in Delta is read back complete."""
    spark.range(3).write.format("delta").save(f"{tmp_path}/table")
    assert {row.id for row in spark.read.format("delta").load(f"{tmp_path}/table").collect()} == {0, 1, 2}


@pytest.mark.promise("`pipeline.conf` wins over spark-submit, and that over the defaults.")
def test_settings_win_over_what_was_submitted_and_that_over_ours(tmp_path: Path) -> None:
    """The master and every Spark setting come from the settings, else from spark-submit, else from our defaults."""
    submitted = {"spark.master": "yarn", "spark.jars": "a.jar", "spark.sql.session.timeZone": "CET"}
    given = session.options(PipelineSettings(), submitted)
    assert (given["spark.master"], given["spark.jars"], given["spark.sql.session.timeZone"]) == ("yarn", "a.jar", "CET")
    assert "spark.sql.shuffle.partitions" not in given
    ours = PipelineSettings(master="local[3]", conf={"spark.jars": "b.jar", "spark.ui.enabled": "false"})
    given = session.options(ours, submitted)
    assert (given["spark.master"], given["spark.jars"], given["spark.ui.enabled"]) == ("local[3]", "b.jar", "false")
    assert given["spark.sql.shuffle.partitions"] == "3"
    missing = PipelineSettings(jars=(str(tmp_path),))
    with pytest.raises(SettingsError, match="scripts/setup --pipeline"):
        session.options(missing, {})


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "does not run"),
        ("""echo 'openjdk version "11.0.2" 2019-01-15' >&2""", "is Java 11, too old"),
        ("""echo 'java version "1.8.0_292"' >&2""", "is Java 8, too old"),
    ],
)
def test_a_java_that_does_not_do_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipeline_settings: PipelineSettings, script: str, words: str
) -> None:
    """A broken or old Java in JAVA_HOME gives one line with the required version."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match=f"{words}.*install Java 17"):
        start(pipeline_settings)


def test_no_java_at_all_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipeline_settings: PipelineSettings
) -> None:
    """Without JAVA_HOME the PATH is searched."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="PATH has none: install Java 17"):
        start(pipeline_settings)


def test_a_master_that_nobody_answers_for_is_reported_at_once(pipeline_settings: PipelineSettings) -> None:
    """A wrong address gives one line with advice at once, not after a minute of retries."""
    wrong = pipeline_settings.model_copy(update={"master": "spark://127.0.0.1:1"})
    with pytest.raises(AgentError, match=r"no Spark master answers at 127\.0\.0\.1:1 .*pipeline\.master"):
        start(wrong)


def test_a_word_that_is_no_master_is_reported(pipeline_settings: PipelineSettings) -> None:
    """A misspelt master is wrong input, reported before Java starts."""
    wrong = pipeline_settings.model_copy(update={"master": "lcoal[2]"})
    with pytest.raises(SettingsError, match=r"pipeline\.master: 'lcoal\[2\]' is not a Spark master address"):
        start(wrong)
