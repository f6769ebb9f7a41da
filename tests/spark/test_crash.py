"""The stream is killed at random moments, and its tables still equal those computed without Spark."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from samerack.pipeline.simulate import Faults
from tests.spark.stream_process import (
    COMMAND_SECONDS,
    Stream,
    arguments,
    filled,
    in_tables,
    read_to_the_end,
    simulated,
    truth,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = 48_000
"""With `BATCH_RECORDS`, enough that every life ends before the last batch."""
BATCH_RECORDS = 600
KILLS = 10
BATCH = "records/s"
"""Part of the line that the stream prints for each written batch."""


def test_every_total_is_right_after_ten_kills_at_random_moments(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    """Repeated, late and malformed records, ten kill -9 and a SIGTERM: good records count once, bad ones stay."""
    made = simulated(SAMPLES, faults=Faults(duplicates=0.05, late=0.01, malformed=0.005))
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
        lives.append(stream.output())
    asked = Stream(words, tmp_path / "asked.log")
    asked.wait_for(BATCH)
    asked.process.terminate()
    assert asked.end() == 0, asked.output()
    assert "SIGTERM: stopping after this batch" in asked.log.read_text()
    read_to_the_end(spark, source, folder)
    assert in_tables(spark, folder) == expected, f"seed {seed}\n" + "\n---\n".join([*lives, asked.output()])


def test_of_two_processes_on_one_checkpoint_nothing_counts_twice(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    """Spark ends one of them; what both read is in the tables once."""
    made = simulated(SAMPLES // 4, faults=Faults(duplicates=0.05))
    source, folder = filled(bootstrap, made), tmp_path / "tables"
    words = arguments(source, folder, trigger_seconds=0.1, batch_records=BATCH_RECORDS)
    both = [Stream(words, tmp_path / f"{name}.log") for name in ("one", "other")]
    deadline = time.monotonic() + COMMAND_SECONDS
    while all(one.process.poll() is None for one in both) and time.monotonic() < deadline:
        time.sleep(0.2)
    for one in both:
        if one.process.poll() is None:
            one.kill(with_java=True)
        else:
            assert one.process.returncode == 1, one.output()
    read_to_the_end(spark, source, folder)
    assert in_tables(spark, folder) == truth(made), "\n---\n".join(one.output() for one in both)
