"""Answers of Kafka 4.3's own TaskAssignmentUtils, one JSON line per question and answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samerack.offline.streams import DEFAULT_STANDBY, OPTIMIZE, answer_line
from tests.unit.golden import golden


def answer(question: dict[str, Any], command: str) -> dict[str, Any]:
    """Our answer with `compatible`."""
    return answer_line(json.dumps(question | {"compatible": True}).encode(), command)


@pytest.mark.parametrize(("asked", "kafkas"), golden("streams-optimize"))
def test_optimised_plans_cost_what_kafkas_cost(asked: dict[str, Any], kafkas: dict[str, Any]) -> None:
    """Counts and initial costs equal Kafka's; afterwards actives cost the same, standbys the same or less."""
    ours = answer(asked, OPTIMIZE)
    for key in ("cost_initial", "cross_rack_initial"):
        assert ours[key] == kafkas[key]
    sizes = [{client: len(tasks) for client, tasks in given["assignment"].items()} for given in (ours, kafkas)]
    assert sizes[0] == sizes[1]
    assert ours["cost"] == kafkas["cost"] if asked["kind"] == "active" else ours["cost"] <= kafkas["cost"]


@pytest.mark.parametrize(("asked", "kafkas"), golden("streams-default-standby"))
def test_default_standbys_are_kafkas(asked: dict[str, Any], kafkas: dict[str, Any]) -> None:
    """Every standby goes where Kafka puts it."""
    ours = answer(asked, DEFAULT_STANDBY)
    assert (ours["active"], ours["standby"]) == (kafkas["active"], kafkas["standby"])
