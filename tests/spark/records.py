"""Records and data frames of them, for the tests on Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from samerack.common.records import Record, encode
from samerack.settings.pipeline import PipelineSettings
from tests.records import SAMPLE, STATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVER: Final = 5_000
"""Days within which no record of the tests is too late, although their times are fixed."""
SETTINGS: Final = PipelineSettings(late_days=EVER)


def sample(number: int, **changes: Any) -> bytes:
    """A good sample, with changed fields as in JSON."""
    return _changed(SAMPLE, {"id": f"sample-{number}", **changes})


def state(number: int, **changes: Any) -> bytes:
    """A good state, with changed fields as in JSON; `...` omits a field."""
    return _changed(STATE, {"id": f"state-{number}", **changes})


def _changed(record: Record, changes: dict[str, Any]) -> bytes:
    fields = {**json.loads(encode(record)), **changes}
    return json.dumps({key: value for key, value in fields.items() if value is not ...}).encode()


def raw(spark: SparkSession, *, samples: Sequence[bytes | None] = (), states: Sequence[bytes | None] = ()) -> DataFrame:
    """Rows as Spark's Kafka source gives them: offsets count from 0 in partition 0 of each topic."""
    rows = [
        (topic, 0, offset, None if value is None else bytearray(value))
        for topic, values in ((SETTINGS.traffic_topic, samples), (SETTINGS.states_topic, states))
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, "topic string, partition int, offset long, value binary")
