"""`roundrobin` equals Kafka's: golden answers of Kafka 4.3.0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.check import check
from samerack.assignors.consumer.roundrobin import assign
from samerack.assignors.model import NOBODY, Problem
from samerack.offline.assign_answers import answer_of, solve
from samerack.offline.assign_json import parse
from tests.unit.assignors import groups

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "consumer.jsonl"


def golden() -> list[tuple[str, str]]:
    """Questions to Kafka's round-robin assignor and its answers."""
    lines = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    return [
        (json.dumps(line["in"]), json.dumps(line["out"])) for line in lines if line["in"]["assignor"] == "roundrobin"
    ]


@pytest.mark.parametrize(("question", "expected"), golden(), ids=range(len(golden())))
def test_golden_answers(question: str, expected: str) -> None:
    """Every member gets the same partitions as with Kafka 4.3.0."""
    kafkas = json.loads(expected)["assignment"]
    answer = answer_of(solve(parse(question)))["assignment"]
    assert {member: sorted(map(tuple, pairs)) for member, pairs in kafkas.items()} == answer


@given(groups.problems(max_partitions=12, max_members=8))
def test_every_partition_has_one_subscriber(problem: Problem) -> None:
    """The plan passes the check that every plan must pass before it is sent."""
    check(problem, assign(problem), cooperative=False)


def test_deals_topics_in_javas_order() -> None:
    """Topics are dealt by UTF-16 code unit, so U+1F600 comes before U+FF5E."""
    members = [MemberInput(id=name, topics=("\uff5e", "\U0001f600")) for name in ("m0", "m1")]
    problem = build_problem(topics={"\uff5e": [[]], "\U0001f600": [[]]}, members=members)
    assert {problem.topics[t]: o for t, o in zip(problem.topic_of, assign(problem), strict=True)} == {
        "\U0001f600": 0,
        "\uff5e": 1,
    }


def test_topics_without_subscribers_or_partitions() -> None:
    """Partitions without subscribers get no owner; an empty topic takes no turn."""
    problem = groups.plain({"a": 0, "t": 2, "unread": 2}, {"m0": ["a", "t"], "m1": ["t"]}, {})
    assert assign(problem).tolist() == [0, 1, NOBODY, NOBODY]
