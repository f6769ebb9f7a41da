"""The stream is killed again and again in mid-flow, and its tables are what plain arithmetic says."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.simulate_faults import Faults
from tests.spark.stream_process import Stream, arguments, in_tables, simulated, topics_with, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = 100_000
KILLS = 5


@pytest.mark.timeout(240)
def test_every_total_is_right_after_five_kills_at_random_moments(spark: SparkSession, tmp_path: Path) -> None:
    """Duplicates, late and malformed records, five kill -9: each good record counts once, each bad one is kept."""
    made = simulated(SAMPLES, faults=Faults(duplicates=0.05, late=0.01, malformed=0.005))
    seed = time.time_ns()
    draw = random.Random(seed)  # noqa: S311 - the seed is shown when the test fails
    lives = []
    with topics_with(made) as bootstrap:
        words = arguments(bootstrap, tmp_path / "tables", trigger_seconds=0.1, batch_records=4000)
        for life in range(KILLS):
            stream = Stream(words, tmp_path / f"life-{life}.log")
            stream.wait_for("reading ")
            time.sleep(draw.uniform(0.5, 9))
            stream.kill(with_java=life % 2 == 0)
            lives.append(stream.said())
        words = arguments(bootstrap, tmp_path / "tables", "--once", batch_records=50_000)
        last = Stream(words, tmp_path / "last.log")
        assert last.end() == 0, last.said()
    story = f"seed {seed}\n" + "\n---\n".join([*lives, last.said()])
    assert sum("batch " in life for life in lives) >= 2, f"killed before anything was written\n{story}"
    found, expected = in_tables(spark, tmp_path / "tables"), truth(made)
    assert sum(samples for _, _, samples in expected.traffic.values()) == SAMPLES
    assert found == expected, story
