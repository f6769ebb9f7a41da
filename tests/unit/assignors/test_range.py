"""`range` equals Kafka's: golden answers of Kafka 4.3.0 and the rules of its documents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.check import check
from samerack.assignors.consumer.order import member_order
from samerack.assignors.consumer.range import assign
from samerack.assignors.model import NOBODY, Problem
from samerack.offline.assign_answers import answer_of, solve
from samerack.offline.assign_json import parse
from tests.unit.assignors import groups
from tests.unit.assignors.groups import RackConfig

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "consumer.jsonl"


def golden() -> list[tuple[str, str]]:
    """Questions to Kafka's range assignor and its answers."""
    lines = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    return [(json.dumps(line["in"]), json.dumps(line["out"])) for line in lines if line["in"]["assignor"] == "range"]


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


@pytest.mark.parametrize("racks", RackConfig)
def test_each_topic_is_dealt_in_ranges(racks: RackConfig) -> None:
    """If racks make no difference, the first members of each topic get one partition more."""
    names = {f"c{number}": ["t0", "t1"] for number in range(2)}
    problem = groups.with_racks(racks, groups.plain({"t0": 3, "t1": 3}, names, {}))
    assert assign(problem).tolist() == [0, 0, 1, 0, 0, 1]


def test_racks_that_differ_are_matched() -> None:
    """If some racks lack replicas, a member first gets partitions with a replica in its rack (KIP-881)."""
    problem = build_problem(
        topics={"t": [["b"], ["a"], ["b"], ["a"]]},
        members=[MemberInput(id=f"m{rack}", topics=("t",), rack=rack) for rack in "ab"],
    )
    assert assign(problem).tolist() == [1, 0, 1, 0]


def test_co_partitioning_comes_before_racks() -> None:
    """Partition i of topics with equal counts stays with one member, whose rack must hold all of them to match."""
    problem = build_problem(
        topics={"t": [["b"], ["a"]], "u": [["b"], ["b"]]},
        members=[MemberInput(id=f"m{rack}", topics=("t", "u"), rack=rack) for rack in "ab"],
    )
    assert assign(problem).tolist() == [1, 0, 1, 0]


def test_static_members_come_first_by_instance_id() -> None:
    """Static members are ordered by instance id and before dynamic ones (KIP-345)."""
    problem = build_problem(
        topics={"t": [[]] * 3},
        members=[
            MemberInput(id="m0", topics=("t",)),
            MemberInput(id="m1", topics=("t",), instance_id="z"),
            MemberInput(id="m2", topics=("t",), instance_id="y"),
        ],
    )
    assert assign(problem).tolist() == [2, 1, 0]


def test_members_are_ordered_by_utf_16() -> None:
    """U+1F600 comes before U+FF5E, as in Java, though its code point is greater."""
    members = [MemberInput(id=name, topics=("t",)) for name in ("\uff5e", "\U0001f600")]
    problem = build_problem(topics={"t": [[], []]}, members=members)
    assert [problem.members[index] for index in member_order(problem)] == ["\U0001f600", "\uff5e"]
    assert [problem.members[index] for index in assign(problem)] == ["\U0001f600", "\uff5e"]


def test_fewer_partitions_than_members() -> None:
    """The first members get one each, the others none."""
    problem = groups.plain({"t": 2, "empty": 0}, {f"m{number}": ["t", "empty"] for number in range(5)}, {})
    assert np.bincount(assign(problem), minlength=5).tolist() == [1, 1, 0, 0, 0]


def test_nobody_subscribes() -> None:
    """Partitions of a topic without subscribers get no owner."""
    problem = groups.plain({"t": 2}, {"m": []}, {})
    assert assign(problem).tolist() == [NOBODY, NOBODY]
