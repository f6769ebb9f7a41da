"""KIP-924's utilities compared with Kafka's own, on random applications of many families."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from samerack.assignors.streams.application import task_id
from samerack.assignors.streams.assignment import TaskType, assignment_of
from samerack.assignors.streams.evaluate import TaskCost, bill
from samerack.offline.streams import DEFAULT_STANDBY, OPTIMIZE, answer_line, prices
from samerack.offline.streams_json import Application, StreamsQuestion
from tests import effort
from tests.parity.peer import Peer
from tests.unit.assignors.streams.questions import optimize_question, standby_question

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.parity, pytest.mark.timeout(300)]  # Maven may have to build the peer for the first test

SEEDS = range(effort.of(5_000))
FEWER = SEEDS[: effort.of(2_000)]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Peer]:
    """Kafka's TaskAssignmentUtils."""
    with Peer("StreamsPeer") as running:
        yield running


def kafkas_bill(question: dict[str, Any], answer: dict[str, Any]) -> TaskCost:
    """The cost of Kafka's plan, computed like ours."""
    application = Application(StreamsQuestion.model_validate(question))
    kind = TaskType(question["kind"].upper())
    params = application.scope()
    after = {
        process: assignment_of(
            process, active=map(task_id, answer["active"][name]), standby=map(task_id, answer["standby"][name])
        )
        for name, process in application.process.items()
    }
    return bill(
        application.state,
        application.assignments(),
        after,
        kind,
        prices(params),
        scope=params.tasks_to_optimize,
        compatible=True,
    )


def counts(tasks: dict[str, list[str]]) -> dict[str, int]:
    """The number of tasks of each client."""
    return {client: len(listed) for client, listed in tasks.items()}


def test_actives_cost_what_kafkas_cost(kafka: Peer) -> None:
    """With `compatible` cost and counts equal Kafka's in every case, for both strategies."""
    for seed in SEEDS:
        question = optimize_question(seed, "active")
        theirs, ours = kafka.ask(question), answer_line(json.dumps(question).encode(), OPTIMIZE)
        assert counts(ours["assignment"]) == counts(theirs["active"]), seed
        assert ours["cost"] == kafkas_bill(question, theirs).cost, seed


def test_standbys_never_cost_more_than_kafkas(kafka: Peer) -> None:
    """With `compatible`, which ignores tags like Kafka, no case costs more than Kafka's swaps, and some cost less."""
    less = 0
    for seed in FEWER:
        question = optimize_question(seed, "standby")
        theirs, ours = kafka.ask(question), answer_line(json.dumps(question).encode(), OPTIMIZE)
        cost = kafkas_bill(question, theirs).cost
        assert counts(ours["assignment"]) == counts(theirs["standby"]), seed
        assert ours["cost"] <= cost, seed
        less += ours["cost"] < cost
    assert less > 0.025 * len(FEWER)


def test_default_standbys_are_kafkas(kafka: Peer) -> None:
    """With `compatible` every standby is on the same client as with Kafka, by load and by tags."""
    for seed in FEWER:
        question = standby_question(seed)
        theirs = kafka.ask(question | {"kind": "default"})
        ours = answer_line(json.dumps(question).encode(), DEFAULT_STANDBY)
        assert (ours["active"], ours["standby"]) == (theirs["active"], theirs["standby"]), seed
