"""What differs between versions of Spark: the figures of a batch, whose form ends no stream; and Delta's jars."""

from __future__ import annotations

import json
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError
from pyspark.sql.streaming.query import StreamingQuery

from samerack.common.errors import AgentError
from samerack.pipeline import tables
from samerack.pipeline.stream import Batch, Writer, follow
from samerack.settings.pipeline import PipelineSettings

END = {"traffic": {"0": 5, "1": 7}, "states": {"0": 1}}
LATEST = {"traffic": {"0": 9, "1": 7}, "states": {"0": 2}}


def followed(*sources: dict[str, Any]) -> list[Batch]:
    """The batches that are shown of a query with one batch, as each version of PySpark gives its figures."""
    said = {"batchId": 3, "numInputRows": 40, "batchDuration": 500, "sources": list(sources)}

    class Progress(dict[str, Any]):
        """What PySpark makes of the figures: up to 4.1 the offsets are texts of Python's, and no JSON."""

        json = json.dumps(said)

    made = Progress(said, sources=[{name: str(offsets) for name, offsets in source.items()} for source in sources])
    query = SimpleNamespace(awaitTermination=lambda _: True, recentProgress=[made])
    shown: list[Batch] = []
    follow(cast("StreamingQuery", query), Writer(PipelineSettings()), Event(), shown.append)
    return shown


def test_what_is_behind_is_known_of_every_version_of_pyspark() -> None:
    """The records that wait are the offsets between the end of the batch and the latest."""
    (batch,) = followed({"endOffset": END, "latestOffset": LATEST})
    assert (batch.number, batch.records, batch.seconds, batch.behind) == (3, 40, 0.5, 5)


@pytest.mark.parametrize("latest", [None, "", "{'traffic'", 7, [1], {"traffic": None}, {"traffic": {"0": "x"}}])
def test_offsets_that_cannot_be_read_are_unknown(latest: object) -> None:
    """The batch is shown, and what is behind is unknown."""
    for source in ({"endOffset": END, "latestOffset": latest}, {"endOffset": latest, "latestOffset": LATEST}, {}):
        (batch,) = followed(source)
        assert (batch.records, batch.behind) == (40, None)


def test_jars_of_another_spark_are_one_error() -> None:
    """Delta's classes cannot be loaded then; the error names the page that lists the versions."""
    words = r"jars .* of this Spark \(io\.delta\..*\): docs/pipeline\.md lists"
    with pytest.raises(AgentError, match=words), tables._explained(PipelineSettings(), "quarantine", "made"):
        raise Py4JError("io.delta.tables.DeltaTable does not exist in the JVM")  # type: ignore[no-untyped-call]
