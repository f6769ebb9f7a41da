"""Whole tasks in a group's problem: each task has one owner, clients have their share, and nothing reads less."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import Problem
from samerack.assignors.streams.whole_tasks import WholeTasks, min_traffic_plan, whole_tasks


def problem(racks: Sequence[str | None], *topics: Sequence[str], any_replica: bool = True) -> Problem:
    """Members in these racks, the first of which owns all; a topic is the racks of the replica of each partition."""
    owned = {f"t{index}": list(range(len(places))) for index, places in enumerate(topics)}
    return build_problem(
        topics={f"t{index}": [tuple(place) for place in places] for index, places in enumerate(topics)},
        members=[
            MemberInput(
                id=f"m{number}",
                topics=tuple(owned),
                rack=rack,
                reads_any_replica=any_replica,
                owned=owned if number == 0 else {},
            )
            for number, rack in enumerate(racks)
        ],
    )


def pairs(count: int, *topics: str) -> list[list[tuple[str, int]]]:
    """Tasks that read the partition of their number of each topic."""
    return [[(topic, number) for topic in topics] for number in range(count)]


def known(one: Problem, tasks: list[list[tuple[str, int]]], clients: Sequence[int]) -> WholeTasks:
    """The tasks of a problem whose members belong to these clients."""
    whole = whole_tasks(one, tasks, {f"m{number}": client for number, client in enumerate(clients)})
    assert whole is not None
    return whole


def test_each_task_has_one_owner() -> None:
    """The partitions of a task go to one member, and each of two threads of a client has its share."""
    one = problem("aab", "bbbbbb", "bbbbbb")
    plan = min_traffic_plan(one, known(one, pairs(6, "t0", "t1"), (7, 7, 9)))
    by_topic = plan.reshape(2, 6)
    assert (by_topic[0] == by_topic[1]).all()
    assert np.bincount(by_topic[0]).tolist() == [2, 2, 2]


def test_partitions_of_no_known_task_keep_their_owners() -> None:
    """What is not known to belong to a task is not moved."""
    one = problem("ab", "bb", "bb")
    whole = known(one, [[("t0", 0)], [("t0", 1), ("absent", 0), ("t1", 9)]], (0, 1))
    assert whole.task.tolist() == [0, 1, -1, -1]
    assert min_traffic_plan(one, whole).tolist()[2:] == [0, 0]


def test_a_client_with_two_racks_has_none() -> None:
    """As in KIP-925, threads of one client with different racks make it a client without rack: any task is as good."""
    one = problem("abb", "aabb")
    mixed = min_traffic_plan(one, known(one, pairs(4, "t0"), (0, 0, 1)))
    clients = np.array([0, 0, 1])[mixed]
    assert np.flatnonzero(clients == 1).tolist() == [2, 3]  # the client of rack b has the tasks of rack b


@pytest.mark.parametrize(
    ("tasks", "clients"),
    [([[("absent", 0)]], {"m0": 0, "m1": 1}), ([[("t0", 0)]], {"m0": 0}), ([], {"m0": 0, "m1": 1})],
)
def test_nothing_is_made_of_what_is_not_known(tasks: list[list[tuple[str, int]]], clients: dict[str, int]) -> None:
    """Without the client of each member, or any task with a partition, there are no whole tasks."""
    assert whole_tasks(problem("ab", "ab"), tasks, clients) is None


@given(
    places=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=6),
    racks=st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
)
def test_no_plan_with_the_same_loads_reads_less(places: list[tuple[str, str]], racks: list[str]) -> None:
    """Brute force over all plans in which each client has as many tasks finds none that reads less across racks."""
    one = problem(racks, [first for first, _ in places], [second for _, second in places])
    plan = min_traffic_plan(one, known(one, pairs(len(places), "t0", "t1"), range(len(racks))))
    loads = np.bincount(plan[: len(places)], minlength=len(racks)).tolist()
    assert max(loads) - min(loads) <= 1
    best = min(
        sum(racks[client] != place for client, both in zip(owners, places, strict=True) for place in both)
        for owners in product(range(len(racks)), repeat=len(places))
        if np.bincount(owners, minlength=len(racks)).tolist() == loads
    )
    assert evaluate(one, plan).cross_rack == best
