"""The model of a group's coordinator, compared with the answers of real brokers in the same scenarios.

`tests/integration/test_coordinator_model.py` runs them on a broker, and writes the record with SAMERACK_RECORD=1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.simulator.desk import play
from tests.simulator.scenarios import SCENARIOS

_DATA: Final = Path(__file__).parents[3] / "data" / "coordinator"


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_model_answers_as_a_broker_did(name: str) -> None:
    """Answers, parked requests and the order of members are the same, given the broker's member ids."""
    recorded: Any = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(play(SCENARIOS[name], recorded["ids"]))) == recorded["answers"]


def test_every_record_has_its_scenario() -> None:
    """No record belongs to a scenario that does not exist any more."""
    assert {path.stem for path in _DATA.glob("*.json")} == set(SCENARIOS)
