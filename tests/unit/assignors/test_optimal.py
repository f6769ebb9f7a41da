"""`optimal` finds the minimum of (balance, cross-rack weight, moves) for every group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer import optimal
from samerack.assignors.consumer.optimal import Options, assign
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Problem
from tests.unit.assignors import groups

OPTIONS = (Options(), Options(keep_copartitioned=True))


@given(groups.problems())
def test_no_plan_is_better(problem: Problem) -> None:
    """Brute force over every plan finds none with a lower objective, nor one with a smaller spread of loads."""
    loads = groups.loads(problem, groups.all_plans(problem))
    for portable in (False, True):
        with groups.solver(portable=portable):
            cost = evaluate(problem, assign(problem))
        assert groups.rank(cost) == groups.best_rank(problem)
        assert cost.imbalance == (loads.max(axis=1) - loads.min(axis=1)).min()


@pytest.mark.parametrize("options", OPTIONS)
@given(problem=groups.problems(max_partitions=12, max_members=8))
def test_second_run_moves_nothing(problem: Problem, options: Options) -> None:
    """If a plan has taken effect, the next run gives the same plan, ties included."""
    first = assign(problem, options)
    second = assign(replace(problem, owner=first), options)
    assert second.tolist() == first.tolist()


def test_a_group_that_needs_nothing_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even loads without reads across racks stay as they are, without a flow; any other group has one."""
    topics = {"t": [["a"], ["b"], ["a"], ["b"]]}

    def group(first: list[int], second: list[int]) -> Problem:
        owned = (("m0", "a", first), ("m1", "b", second))
        return build_problem(
            topics=topics,
            members=[MemberInput(id=name, topics=("t",), rack=rack, owned={"t": has}) for name, rack, has in owned],
        )

    monkeypatch.setattr(optimal, "place", lambda *_, **__: np.full(4, 1, np.int32))
    assert assign(group([0, 2], [1, 3])).tolist() == [0, 1, 0, 1]
    for first, second in (([0, 1], [2, 3]), ([0], [1, 2, 3]), ([0, 2], [1])):
        assert assign(group(first, second), Options(spread=False)).tolist() == [1] * 4


@given(groups.problems(max_partitions=12, max_members=8), st.randoms(use_true_random=False))
def test_generated_member_ids_do_not_matter(problem: Problem, dice: object) -> None:
    """Static members that return with other member ids, in another order, keep exactly their partitions."""
    count = len(problem.members)
    static = replace(problem, instance_ids=tuple(f"i{index}" for index in range(count)))
    shuffle = np.array(sorted(range(count), key=lambda _: dice.random()), np.int32)  # type: ignore[attr-defined]  # hypothesis types it as object
    place = np.append(np.argsort(shuffle), NOBODY).astype(np.int32)
    again = replace(
        static,
        instance_ids=tuple(static.instance_ids[index] for index in shuffle),
        member_rack=static.member_rack[shuffle],
        reads_any_replica=static.reads_any_replica[shuffle],
        subscription_of=static.subscription_of[shuffle],
        owner=place[static.owner],
    )
    assert assign(again).tolist() == place[assign(static)].tolist()


def test_group_without_members() -> None:
    """In a group without members no partition has an owner."""
    problem = build_problem(topics={"t": [["a"], ["b"]]}, members=[])
    assert assign(problem).tolist() == [NOBODY, NOBODY]


def test_topic_without_subscribers() -> None:
    """Partitions without subscribers get no owner and do not count for balance."""
    problem = groups.plain({"t": 4, "unread": 3}, {"m0": ["t"], "m1": ["t"]}, {})
    assert assign(problem).tolist() == [0, 1, 0, 1, NOBODY, NOBODY, NOBODY]


def test_fresh_members_take_turns() -> None:
    """Without owners, members of a rack take partitions in turn, so each has some of every topic."""
    problem = groups.plain({"t": 9, "u": 3}, {f"m{number}": ["t", "u"] for number in range(3)}, {})
    assert assign(problem).tolist() == [0, 1, 2] * 4


def test_weights_as_large_as_bytes() -> None:
    """With byte rates as weights the folded cost exceeds 64 bits; levels are then solved one by one, exactly."""
    dice = np.random.default_rng(3)
    topics = {"t": [[dice.choice(list("abc"))] for _ in range(3000)]}
    members = [
        MemberInput(
            id=f"m{number:02}", topics=("t",), rack="abc"[number % 3], owned={"t": [number, number + 40]}, generation=1
        )
        for number in range(40)
    ]
    scale = 10**13
    small = dice.integers(1, 4, 3000)
    exact = build_problem(topics=topics, members=members, weights={"t": small.tolist()})
    large = build_problem(topics=topics, members=members, weights={"t": (small * scale).tolist()})
    cost, expected = evaluate(large, assign(large)), evaluate(exact, assign(exact))
    assert (cost.cross_rack_weight, cost.moved) == (expected.cross_rack_weight * scale, expected.moved)
