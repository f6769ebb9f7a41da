"""`optimal` finds the minimum of (balance, cross-rack weight, moves) for every group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.check import check
from samerack.assignors.consumer import optimal
from samerack.assignors.consumer.optimal import Options, assign
from samerack.assignors.evaluate import evaluate
from samerack.assignors.model import NOBODY, Cost, Problem
from tests.unit.assignors import groups
from tests.unit.assignors.groups import RackConfig

OPTIONS = (Options(), Options(keep_copartitioned=True))


def rank(cost: Cost) -> tuple[int, int, int]:
    """The objective, the most important first."""
    return cost.sum_of_squares, cost.cross_rack_weight, cost.moved


@given(groups.problems())
def test_no_plan_is_better(problem: Problem) -> None:
    """Brute force over every plan finds none with a lower objective, nor one with a smaller spread of loads."""
    plans = groups.all_plans(problem)
    loads = groups.loads(problem, plans)
    best = groups.least((loads**2).sum(axis=1), groups.cross_rack_weights(problem, plans), groups.moves(problem, plans))
    for portable in (False, True):
        cost = evaluate(problem, assign(problem, portable=portable))
        assert rank(cost) == best
        assert cost.imbalance == (loads.max(axis=1) - loads.min(axis=1)).min()


@pytest.mark.parametrize("options", OPTIONS)
@given(problem=groups.problems(max_partitions=12, max_members=8))
def test_every_partition_has_one_subscriber(problem: Problem, options: Options) -> None:
    """The plan passes the check that every plan must pass before it is sent."""
    check(problem, assign(problem, options), cooperative=False)


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


@pytest.mark.parametrize("racks", RackConfig)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("partitions", "members"), [(0, 3), (1, 1), (2, 5), (7, 1), (7, 3), (100, 9)], ids=str)
def test_loads_differ_by_at_most_one(racks: RackConfig, options: Options, partitions: int, members: int) -> None:
    """Members with equal subscriptions get the floor or one more, also with fewer partitions than members."""
    names = {f"m{number}": ["t", "empty"] for number in range(members)}
    problem = groups.with_racks(racks, groups.plain({"t": partitions, "empty": 0}, names, {}))
    owner = assign(problem, options)
    assert sorted(np.bincount(owner, minlength=members), reverse=True) == [
        partitions // members + (number < partitions % members) for number in range(members)
    ]


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


def test_member_that_reads_only_leaders() -> None:
    """Of two members of a rack, the one that reads from leaders only gets the partition whose leader is there."""
    problem = build_problem(
        topics={"t": [["b", "a"], ["a", "b"]]},
        members=[
            MemberInput(id="any", topics=("t",), rack="a"),
            MemberInput(id="leader", topics=("t",), rack="a", reads_any_replica=False),
        ],
    )
    owner = assign(problem)
    assert owner.tolist() == [0, 1]
    assert evaluate(problem, owner).cross_rack == 0


def test_weights_decide_what_crosses() -> None:
    """If something must cross racks, the lightest partitions do, independent of their owners."""
    problem = build_problem(
        topics={"t": [["a"], ["a"], ["a"], ["a"]]},
        members=[
            MemberInput(id="here", topics=("t",), rack="a", owned={"t": [1, 3]}, generation=1),
            MemberInput(id="there", topics=("t",), rack="b", owned={"t": [0, 2]}, generation=1),
        ],
        weights={"t": [9, 1, 8, 2]},
    )
    assert assign(problem).tolist() == [0, 1, 0, 1]


def test_balance_comes_before_racks() -> None:
    """A member in a rack without replicas still gets its share."""
    problem = build_problem(
        topics={"t": [["a"]] * 6},
        members=[MemberInput(id=f"m{rack}", topics=("t",), rack=rack) for rack in "abc"],
    )
    assert np.bincount(assign(problem)).tolist() == [2, 2, 2]


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
