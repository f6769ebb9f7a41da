"""The stream is killed, and its tables still equal those computed without Spark."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from samerack.pipeline.simulate_faults import Faults
from tests.spark.stream_process import Stream, arguments, filled, in_tables, read_to_the_end, simulated, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = 24_000
"""With `BATCH_RECORDS`, enough that every life ends before the last batch."""
BATCH_RECORDS = 600
KILLS = 5
FEW = 400
FEW_IN_A_BATCH = 120
FAULTS = Faults(duplicates=0.05, late=0.02, malformed=0.05)
STEPS = ("offsets", "commits")
"""The parts of a checkpoint: what a batch is to read, and that it is done."""
BATCH = "records/s"
"""Part of the line that the stream prints for each written batch."""


@pytest.mark.promise("Every good record counts exactly once although the stream is killed in the middle of a batch.")
def test_every_record_counts_once_over_a_kill(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """Killed between two tables of a batch, the next stream repeats the batch: all totals are right, repeats are none.

    Records are repeated over the kill as well, since a repetition comes up to a thousand records later.
    """
    made = simulated(FEW, faults=FAULTS)
    assert any(message.fault == "duplicate" for message in made[-FEW_IN_A_BATCH:])
    source, folder = filled(bootstrap, made), tmp_path / "tables"
    words = arguments(source, folder, trigger_seconds=0.1, batch_records=FEW_IN_A_BATCH)
    killed = Stream(words, tmp_path / "killed.log", dying=True)
    assert killed.end() == -signal.SIGKILL, killed.said()
    steps = {kind: {file.name for file in (folder / "_checkpoint" / kind).glob("[0-9]*")} for kind in STEPS}
    assert steps == {"offsets": {"0", "1"}, "commits": {"0"}}, killed.said()
    read_to_the_end(spark, source, folder)
    assert in_tables(spark, folder) == truth(made)


@pytest.mark.timeout(480)  # takes a minute or two on an idle machine
def test_every_total_is_right_after_five_kills_at_random_moments(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    """Repeated, late and malformed records, five kill -9 and a SIGTERM: good records count once, bad ones stay."""
    made = simulated(SAMPLES, faults=FAULTS)
    expected = truth(made)
    assert sum(samples for _, _, samples in expected.traffic.values()) == SAMPLES
    seed = time.time_ns()
    draw = random.Random(seed)  # noqa: S311 - the seed is shown if the test fails
    lives = []
    source, folder = filled(bootstrap, made), tmp_path / "tables"
    words = arguments(source, folder, trigger_seconds=0.1, batch_records=BATCH_RECORDS)
    for life in range(KILLS):
        stream = Stream(words, tmp_path / f"life-{life}.log")
        # kills alternate: before the first batch, while tables and checkpoint are made, and between batches
        stream.wait_for(BATCH if life % 2 else "reading ")
        time.sleep(draw.uniform(0, 5))
        stream.kill(with_java=draw.random() < 0.7)
        lives.append(stream.said())
    asked = Stream(words, tmp_path / "asked.log")
    asked.wait_for(BATCH)
    asked.process.terminate()
    assert asked.end() == 0, asked.said()
    assert "SIGTERM: ending after this batch" in asked.log.read_text()
    read_to_the_end(spark, source, folder)
    assert in_tables(spark, folder) == expected, f"seed {seed}\n" + "\n---\n".join([*lives, asked.said()])
