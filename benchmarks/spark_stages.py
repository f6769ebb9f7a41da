"""Reads from Spark's event log what its tasks spent on each step of the stream."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

READING: Final = "reading"
REMEMBERING: Final = "remembering"
WRITING: Final = "writing"
_CPU: Final = "internal.metrics.executorCpuTime"
_UPDATE: Final = "time to update"
"""A metric that only a stage with a state store has."""


def conf(folder: Path) -> dict[str, str]:
    """Returns Spark's settings that write the event log to a folder, which must exist."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def task_seconds(folder: Path) -> dict[str, float]:
    """Returns the processor seconds of all tasks by step: read from Kafka, remember, write (all the rest)."""
    found: dict[str, float] = defaultdict(float)
    for log in folder.iterdir():
        with log.open(encoding="utf-8") as lines:
            for stage in _stages(lines):
                values = {one["Name"]: one.get("Value", 0) for one in stage["Accumulables"]}
                found[_step(stage, values)] += int(values.get(_CPU, 0)) / 1e9
    return dict(found)


def _stages(lines: Iterable[str]) -> Iterable[Mapping[str, Any]]:
    return (
        json.loads(line)["Stage Info"] for line in lines if line.startswith('{"Event":"SparkListenerStageCompleted"')
    )


def _step(stage: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    if any("MicroBatchScan" in one.get("Scope", "") for one in stage["RDD Info"]):
        return READING
    return REMEMBERING if _UPDATE in values else WRITING
