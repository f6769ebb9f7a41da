"""One small fleet through the whole pipeline: a stream that is killed, its tables, and the report of them."""

from __future__ import annotations

import json
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from samerack.common.money import shipped
from samerack.pipeline.simulate import Faults
from tests.spark.conftest import INTERPRETED, Typed
from tests.spark.stream_process import Stream, Truth, arguments, filled, in_tables, read_to_the_end, simulated, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES: Final = 400
BATCH_RECORDS: Final = 120
FAULTS: Final = Faults(duplicates=0.05, late=0.02, malformed=0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """Tables that a killed stream and the next one made, and their content as computed without Spark."""

    folder: Path
    expected: Truth


@pytest.fixture(scope="module")
def streamed(spark: SparkSession, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Streamed:
    """A stream kills itself between two tables of its second batch; the next one repeats that, and reads the rest.

    Records are repeated on both sides of the kill, since a repetition comes up to a thousand records later.
    """
    home = tmp_path_factory.mktemp("streamed")
    made = simulated(SAMPLES, faults=FAULTS)
    assert any(message.fault == "duplicate" for message in made[-BATCH_RECORDS:])
    source, folder = filled(bootstrap, made), home / "tables"
    words = arguments(source, folder, trigger_seconds=0.1, batch_records=BATCH_RECORDS, conf=json.dumps(INTERPRETED))
    killed = Stream(words, home / "killed.log", dying=True)
    assert killed.end() == -signal.SIGKILL, killed.output()
    begun, done = (
        {file.name for file in (folder / "_checkpoint" / kind).glob("[0-9]*")} for kind in ("offsets", "commits")
    )
    assert (begun, done) == ({"0", "1"}, {"0"}), killed.output()
    read_to_the_end(spark, source, folder)
    return Streamed(folder=folder, expected=truth(made))


@pytest.mark.promise("Every good record counts exactly once although the stream is killed in the middle of a batch.")
def test_every_record_counts_once_over_a_kill(spark: SparkSession, streamed: Streamed) -> None:
    """All sums, states and bad records are those computed without Spark; no key has two rows."""
    assert in_tables(spark, streamed.folder) == streamed.expected


@pytest.mark.promise("The report of the stream's tables has the bytes, dollars and bad records computed without Spark.")
def test_the_report_adds_up(typed: Typed, streamed: Streamed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes the page, and its figures are sums of the records as they were sent."""
    monkeypatch.chdir(tmp_path)
    done = typed("pipeline", "report", "--json", "--top", "100", "-s", f"pipeline.tables={streamed.folder}")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    read, crossed = Counter[str](), Counter[str]()
    for (_, group, _, mine, theirs, *_), (size, _, _) in streamed.expected.traffic.items():
        read[group] += size
        crossed[group] += size if mine and theirs and mine != theirs else 0
    headline = report["headline"]
    assert (headline["bytes"], headline["crossing_bytes"]) == (read.total(), crossed.total())
    assert headline["dollars"] == pytest.approx(shipped("aws").dollars(crossed.total()))
    assert headline["month"]["possible"] > 0
    assert {one["group"]: (one["bytes"], one["crossing_bytes"]) for one in report["groups"]} == {
        group: (read[group], crossed[group]) for group in read
    }
    assert sum(bad["records"] for bad in report["bad"]) == streamed.expected.quarantine.total()
    assert report["failed"] == 0
    assert (tmp_path / "report.html").is_file()
