"""How a session starts, and what is said when it does not."""

from __future__ import annotations

from pyspark.sql import SparkSession


def test_a_session_from_the_settings_reads_and_writes_delta(spark: SparkSession, tmp_path: object) -> None:
    """A table that the session writes in Delta is read back whole."""
    spark.range(3).write.format("delta").save(f"{tmp_path}/table")
    assert {row.id for row in spark.read.format("delta").load(f"{tmp_path}/table").collect()} == {0, 1, 2}
