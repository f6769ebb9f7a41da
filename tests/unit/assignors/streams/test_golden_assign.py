"""Kafka's recorded answers to `streams-assign`, task by task, through the command's own parser and writer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samerack.offline.streams import ASSIGN, answer_line
from tests.unit.golden import golden

LINES = golden("streams-assign")
SAME_IN_ANY_ORDER = ("validation", "cross_rack_active", "probing_rebalance", "rack_aware_enabled")
"""Values that do not depend on the order of Kafka's clients, which decides only among plans of equal cost."""


def ours(question: dict[str, Any], *, compatible: bool) -> dict[str, Any]:
    """Our answer."""
    return answer_line(json.dumps(question | {"compatible": compatible}).encode(), ASSIGN)


def counts(answer: dict[str, Any]) -> dict[str, int]:
    """The number of actives by client."""
    return {client: len(tasks) for client, tasks in answer["active"].items()}


@pytest.mark.parametrize(("question", "theirs"), LINES)
def test_plans_are_kafkas_task_by_task(question: dict[str, Any], theirs: dict[str, Any]) -> None:
    """With `compatible` every task and flag equals Kafka's; if a hash map ordered its clients, counts and costs do."""
    mine = ours(question, compatible=True)
    if question.get("order") == "hash":
        assert counts(mine) == counts(theirs)
        assert {key: mine[key] for key in SAME_IN_ANY_ORDER if key in theirs} == {
            key: theirs[key] for key in SAME_IN_ANY_ORDER if key in theirs
        }
        return
    given = theirs.keys() - {"nanos", "cpu_nanos"}
    assert {key: mine[key] for key in given} == {key: theirs[key] for key in given}


@pytest.mark.parametrize(("question", "theirs"), LINES)
def test_plans_are_no_less_even_than_kafkas(question: dict[str, Any], theirs: dict[str, Any]) -> None:
    """By default too, actives are at least as even over threads as Kafka's, except those of `ha`."""
    threads: dict[str, int] = {client["id"]: client["threads"] for client in question["clients"]}

    def unevenness(answer: dict[str, Any]) -> float:
        return sum(count**2 / threads[client] for client, count in counts(answer).items())

    mine = ours(question, compatible=False)
    assert mine["validation"] == "NONE"
    assert mine["unassigned"] == []
    if question["assignor"] != "ha":  # there, lags decide where a task runs for now
        assert unevenness(mine) <= unevenness(theirs) + 1e-9
