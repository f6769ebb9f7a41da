"""`range` and `roundrobin` equal Kafka's: golden answers of Kafka 4.3.0 and the rules of its documents."""

from __future__ import annotations

import json

import pytest

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.kafkas import assign_range, assign_roundrobin, member_order
from samerack.assignors.problem import NOBODY
from samerack.offline.assign import answer_of, solve
from samerack.offline.assign_json import parse
from tests.unit.assignors import groups
from tests.unit.golden import lines

EARLY, LATE = "\U0001f600", "\uff5e"
"""In Java's order, which is that of UTF-16 code units; the first has the greater code point."""


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_golden_answers(assignor: str) -> None:
    """Every member gets the same partitions as with Kafka 4.3.0."""
    for line in (line for line in lines("consumer") if line["in"]["assignor"] == assignor):
        kafkas = {member: sorted(map(tuple, pairs)) for member, pairs in line["out"]["assignment"].items()}
        assert answer_of(solve(parse(json.dumps(line["in"]))))["assignment"] == kafkas


def test_co_partitioning_comes_before_racks() -> None:
    """Partition i of topics with equal counts stays with one member, whose rack must hold all of them to match."""
    problem = build_problem(
        topics={"t": [["b"], ["a"]], "u": [["b"], ["b"]]},
        members=[MemberInput(id=f"m{rack}", topics=("t", "u"), rack=rack) for rack in "ab"],
    )
    assert assign_range(problem).tolist() == [1, 0, 1, 0]


def test_members_are_ordered_as_in_java() -> None:
    """Static members come first, by instance id (KIP-345), and all names go by UTF-16 code unit."""
    members = [MemberInput(id=name, topics=("t",)) for name in (LATE, EARLY)]
    members += [MemberInput(id=f"m{name}", topics=("t",), instance_id=name) for name in (LATE, EARLY)]
    problem = build_problem(topics={"t": [[]] * 4}, members=members)
    expected = [f"m{EARLY}", f"m{LATE}", EARLY, LATE]
    assert [problem.members[index] for index in member_order(problem)] == expected
    assert [problem.members[index] for index in assign_range(problem)] == expected


def test_roundrobin_deals_topics_in_javas_order() -> None:
    """Topics are dealt by UTF-16 code unit; a topic without partitions or without subscribers takes no turn."""
    topics = [LATE, EARLY, "empty"]
    problem = groups.plain({LATE: 1, EARLY: 1, "empty": 0, "unread": 1}, {"m0": topics, "m1": topics}, {})
    dealt = dict(zip((problem.topics[t] for t in problem.topic_of), assign_roundrobin(problem).tolist(), strict=True))
    assert dealt == {EARLY: 0, LATE: 1, "unread": NOBODY}
