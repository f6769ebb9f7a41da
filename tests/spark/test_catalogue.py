"""Tables in a schema of a catalogue, instead of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from samerack.common.errors import SettingsError
from samerack.pipeline import tables
from samerack.pipeline.schema import TABLES
from samerack.pipeline.simulate import Faults
from samerack.settings.pipeline import PipelineSettings
from tests.spark.conftest import Typed
from tests.spark.stream_process import filled, in_tables, read_to_the_end, simulated, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "spark_catalog.fleet"


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    """The folder in which the schema has its tables."""
    spark.sql(f"CREATE SCHEMA {SCHEMA} LOCATION '{tmp_path / 'fleet'}'")
    return tmp_path / "fleet"


def test_all_commands_take_a_schema(
    spark: SparkSession, typed: Typed, bootstrap: str, folder: Path, tmp_path: Path
) -> None:
    """A stream fills the schema's tables, once; maintenance, report and what-if read them by name."""
    made = simulated(1_000, faults=Faults(duplicates=0.05, malformed=0.005))
    source = filled(bootstrap, made)
    for _ in range(2):
        read_to_the_end(spark, source, SCHEMA, checkpoint=str(tmp_path / "checkpoint"))
        assert in_tables(spark, folder) == truth(made)
    where = ("-s", f"pipeline.tables={SCHEMA}", "-s", "pipeline.traffic_days=5000", "-s", "pipeline.states_days=5000")
    for words in (("maintain",), ("report", "--output", str(tmp_path / "report.html")), ("whatif",)):
        done = typed("pipeline", *words, *where)
        assert done.exit_code == 0, done.stderr
    assert {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {SCHEMA}").collect()} == set(TABLES)
    settings = PipelineSettings(tables=SCHEMA)
    rows = tables.read(spark, settings, "quarantine").limit(1).persist()
    before = tables.read(spark, settings, "quarantine").count()
    for _ in range(2):
        with tables.transaction(spark, writer="test", number=1, late_days=90):
            tables.append(rows, settings, "quarantine")
    assert tables.read(spark, settings, "quarantine").count() == before + 1
    with pytest.raises(SettingsError, match=r"pipeline\.checkpoint is empty.*\./spark_catalog\.fleet is a folder"):
        tables.checkpoint(settings)
