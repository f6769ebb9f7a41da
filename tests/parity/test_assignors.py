"""Our assignors beside Kafka's own, on random groups of many families."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agent.cli.assign_json import Solution, answer_of, parse, solve
from assignors.check import check
from assignors.evaluate import evaluate
from assignors.model import NOBODY, AssignmentError, Cost, Int32Array, Problem
from tests.parity.cases import Case, random_case

if TYPE_CHECKING:
    from tests.parity.peer import Peer

pytestmark = [pytest.mark.parity, pytest.mark.timeout(300)]  # the first test may wait for Maven

SEEDS = range(1000)


def ours(case: Case) -> Solution:
    """Our solution of a case."""
    return solve(parse(json.dumps(case)))


def owners(problem: Problem, answer: dict[str, Any]) -> Int32Array:
    """An answer as owner per partition; NOBODY where it names none."""
    names = zip(problem.topic_of.tolist(), problem.number_of.tolist(), strict=True)
    position = {(problem.topics[topic], number): index for index, (topic, number) in enumerate(names)}
    owner = np.full(len(position), NOBODY, np.int32)
    for index, member in enumerate(problem.members):
        for topic, number in answer["assignment"][member]:
            owner[position[topic, number]] = index
    return owner


def kafkas_plan(peer: Peer, case: Case, problem: Problem) -> Int32Array | None:
    """Kafka's final plan: that of the case's assignor, or sticky's (the same algorithm) where that withholds some.

    None where the plan is wrong: Kafka gives partitions to members without topics (see the test below).
    """
    for assignor in (case["assignor"], "sticky"):
        owner = owners(problem, peer.ask(case | {"assignor": assignor}))
        try:
            check(problem, owner, cooperative=False)
        except AssignmentError:
            continue
        return owner
    return None


def rank(cost: Cost) -> tuple[int, int, int]:
    """What is compared, the most important first."""
    return cost.sum_of_squares, cost.cross_rack, cost.moved


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_decides_as_kafka(peer: Peer, assignor: str) -> None:
    """`range` and `roundrobin` give every member exactly what Kafka's assignors of these names give it."""
    different = []
    for seed in SEEDS:
        case = random_case(seed, assignor)
        kafkas = {member: [tuple(pair) for pair in pairs] for member, pairs in peer.ask(case)["assignment"].items()}
        # Java compares topics by UTF-16 code unit, the answer of our command by code point
        if {member: sorted(pairs) for member, pairs in kafkas.items()} != answer_of(ours(case))["assignment"]:
            different.append(seed)
    assert different == []


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_is_never_worse_than_kafka(peer: Peer, assignor: str) -> None:
    """`sticky` is at least as balanced, then crosses no more racks, then moves no more than Kafka's of the name."""
    worse, compared = [], 0
    for seed in SEEDS:
        case = random_case(seed, assignor)
        solution = ours(case)
        kafkas = kafkas_plan(peer, case, solution.problem)
        if kafkas is None:
            continue
        compared += 1
        mine, theirs = evaluate(solution.problem, solution.owner), evaluate(solution.problem, kafkas)
        if mine.imbalance > theirs.imbalance or rank(mine) > rank(theirs):
            worse.append((seed, mine, theirs))
    assert worse == []
    assert compared > 0.99 * len(SEEDS)


def test_kafka_gives_partitions_to_a_member_without_topics(peer: Peer) -> None:
    """Kafka's sticky assignors take members without topics that come first for subscribers of everything."""
    members = [{"id": f"m{number}", "topics": ["t"] if number == 5 else [], "owned": []} for number in range(6)]
    question = {"brokers": [], "topics": {"t": [[], [], [], []]}, "members": members}
    for assignor in ("sticky", "cooperative-sticky"):
        given = peer.ask(question | {"assignor": assignor})["assignment"]
        assert sum(len(given[f"m{number}"]) for number in range(5)) > 0
    assert len(answer_of(ours(question | {"assignor": "optimal"}))["assignment"]["m5"]) == 4
