"""Names in any order become the same problem, and contested claims are resolved."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.problem import NOBODY, AssignmentError, Problem

TOPICS: dict[str, list[list[str | None]]] = {"b": [["x", "y"], [None, "x"], []], "a": [["y"]], "empty": []}


def member(name: str, **changes: object) -> MemberInput:
    """A member of topics a and b."""
    return replace(MemberInput(id=name, topics=("a", "b")), **changes)  # type: ignore[arg-type]  # the names are checked at run time


def owners(*members: MemberInput) -> dict[str, str]:
    """Present owner of each owned partition, by name."""
    problem = build_problem(topics=TOPICS, members=members)
    return {
        f"{problem.topics[problem.topic_of[index]]}-{problem.number_of[index]}": problem.members[owner]
        for index, owner in enumerate(problem.owner)
        if owner != NOBODY
    }


def test_partitions_topics_racks_and_members_are_sorted() -> None:
    """Topics, racks and members are sorted by name, partitions by topic and number."""
    problem = build_problem(topics=TOPICS, members=[member("m2", rack="z"), member("m1")])
    assert problem.topics == ("a", "b", "empty")
    assert problem.racks == ("x", "y", "z")
    assert problem.members == ("m1", "m2")
    assert problem.topic_of.tolist() == [0, 1, 1, 1]
    assert problem.number_of.tolist() == [0, 0, 1, 2]
    assert problem.member_rack.tolist() == [NOBODY, 2]


def test_racks_of_replicas_and_leader() -> None:
    """The first replica is the leader; a replica without a rack counts in no rack."""
    problem = build_problem(topics=TOPICS, members=[member("m")])
    assert problem.replica_racks.tolist() == [[False, True], [True, True], [True, False], [False, False]]
    assert problem.leader_rack.tolist() == [1, 0, NOBODY, NOBODY]


def test_racks_compare_exactly_and_empty_is_none() -> None:
    """Racks that differ in case are two racks, and an empty name is no rack."""
    problem = build_problem(topics={"t": [["A", ""]]}, members=[MemberInput(id="m", topics=("t",), rack="a")])
    assert problem.racks == ("A", "a")
    assert problem.replica_racks.tolist() == [[True, False]]
    assert build_problem(topics={}, members=[member("m", rack="")]).member_rack.tolist() == [NOBODY]


def test_order_of_report_does_not_matter() -> None:
    """Permuted members, topics and subscriptions make an equal problem."""
    members = [member(f"m{number}", rack="xy"[number % 2], owned={"b": [number]}, generation=1) for number in range(3)]
    members.append(MemberInput(id="m3", topics=("b",)))
    first = build_problem(topics=TOPICS, members=members)
    backwards = [replace(one, topics=tuple(reversed(tuple(one.topics)))) for one in reversed(members)]
    second = build_problem(topics=dict(reversed(TOPICS.items())), members=backwards)
    for field in fields(Problem):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))


def test_equal_subscriptions_are_one() -> None:
    """Members with the same topics share a subscription; unknown topics make no difference."""
    members = [member("m1"), member("m2", topics=frozenset({"b", "a", "absent"})), member("m3", topics=())]
    problem = build_problem(topics=TOPICS, members=members)
    assert problem.subscription_of.tolist() == [1, 1, 0]
    assert problem.subscriptions.tolist() == [[False, False, False], [True, True, False]]


def test_member_that_names_a_partition_twice() -> None:
    """A duplicate claim of one member is no conflict."""
    assert owners(member("m1", owned={"b": [0, 0]}, generation=1)) == {"b-0": "m1"}


def test_stale_claims_are_dropped() -> None:
    """Claims of partitions that do not exist, and of topics no longer subscribed, are ignored."""
    owned = {"b": [-1, 2, 3, 10**12], "absent": [0], "empty": [0]}
    assert owners(member("m1", owned=owned, generation=1)) == {"b-2": "m1"}
    assert owners(member("m1", topics=("a",), owned={"b": [0]}, generation=1)) == {}


def test_weights_of_some_topics() -> None:
    """Partitions of topics without weights have weight 1."""
    problem = build_problem(topics=TOPICS, members=[], weights={"b": [5, 6, 7]})
    assert problem.weights is not None
    assert problem.weights.tolist() == [1, 5, 6, 7]


@pytest.mark.parametrize("weights", [[1, 2], [1, 2, 0], [1, 2, 0.5], [1, 2, 1 << 70], [1 << 62] * 3])
def test_wrong_weights_are_refused(weights: list[int]) -> None:
    """Weights must be as many positive integers as the topic has partitions, and their sum must not overflow."""
    with pytest.raises(AssignmentError, match="weights"):
        build_problem(topics=TOPICS, members=[], weights={"b": weights})


def test_wrong_claims_are_refused() -> None:
    """For partition numbers that are no integers, the error names the member and the topic."""
    with pytest.raises(AssignmentError, match=r"'m1'.*'b'"):
        owners(member("m1", owned={"b": ["x"]}))


def test_member_ids_are_unique() -> None:
    """A member id that occurs twice is refused by name."""
    with pytest.raises(AssignmentError, match="'m1'"):
        owners(member("m1"), member("m1"))
