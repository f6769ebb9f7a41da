"""Compares the simulator's model of a group's coordinator with the coordinator of a real broker.

With SAMERACK_RECORD=1 the broker's answers are saved for the unit tests, in `tests/data/coordinator`.
"""

from __future__ import annotations

import gc
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from lab.sandbox.contract import KafkaCluster
from tests.simulator.broker_desk import record
from tests.simulator.desk import Record, play
from tests.simulator.scenarios import SCENARIOS

_DATA: Final = Path(__file__).parents[1] / "data" / "coordinator"
_AT_ONCE: Final = 11
_TRIES: Final = 3


def test_the_model_answers_as_a_broker(cluster: KafkaCluster, group: str) -> None:
    """Each scenario gives the same answers, parked requests included, and the same order of members."""
    records = _records(cluster, group, SCENARIOS)
    for number in range(1, _TRIES):  # on a busy machine timers expire, and requests overtake each other
        if differing := _differing(records):
            records |= _records(cluster, f"{group}-{number}", differing, at_once=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # kafka-python leaves sockets to the collector
        gc.collect()
    if os.environ.get("SAMERACK_RECORD"):
        for name, answers in records.items():
            text = json.dumps({"ids": answers.names.ids, "answers": answers.lines}, indent=1)
            (_DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    for name in _differing(records):
        assert play(SCENARIOS[name], records[name].names.ids) == records[name].lines, name


def _records(cluster: KafkaCluster, group: str, names: Iterable[str], *, at_once: int = _AT_ONCE) -> dict[str, Record]:
    with ThreadPoolExecutor(at_once) as pool:
        running = {name: pool.submit(record, cluster.bootstrap, f"{group}-{name}", SCENARIOS[name]) for name in names}
        return {name: future.result() for name, future in running.items()}


def _differing(records: Mapping[str, Record]) -> list[str]:
    return [name for name, answers in records.items() if play(SCENARIOS[name], answers.names.ids) != answers.lines]
