"""What a plan costs, what it withholds, and which plans are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.check import check, transferring, withhold
from samerack.assignors.consumer.optimal import assign
from samerack.assignors.evaluate import cross_rack_mask, evaluate
from samerack.assignors.problem import NOBODY, AssignmentError, Int32Array, Problem
from tests.unit.assignors import groups


def plan(*owners: int) -> Int32Array:
    """A plan as indices of members."""
    return np.array(owners, np.int32)


@pytest.fixture
def problem() -> Problem:
    """Two members of topic t, one with a rack, and one member of topic u; m0 owns t-0, m1 owns t-1."""
    return build_problem(
        topics={"t": [["a"], ["b", "a"], ["b"]], "u": [["a"]]},
        members=[
            MemberInput(id="m0", topics=("t",), rack="a", owned={"t": [0]}, generation=1),
            MemberInput(id="m1", topics=("t",), owned={"t": [1]}, generation=1),
            MemberInput(id="m2", topics=("u",), rack="b"),
        ],
        weights={"t": [2, 3, 5], "u": [7]},
    )


def test_cost_counts_what_it_says(problem: Problem) -> None:
    """Imbalance, squares, cross-rack partitions and weight, moves and assigned weight equal values computed by hand."""
    cost = evaluate(problem, plan(1, 0, 0, 2))
    assert (cost.imbalance, cost.sum_of_squares) == (1, 4 + 1 + 1)
    assert (cost.cross_rack, cost.cross_rack_weight) == (2, 5 + 7)
    assert (cost.moved, cost.unassigned, cost.assigned_weight) == (2, 0, 17)


def test_partition_without_subscribers_is_unassigned(problem: Problem) -> None:
    """Only partitions without subscribers count as unassigned; withheld ones do not."""
    lonely = replace(problem, subscriptions=problem.subscriptions & np.array([True, False]))
    assert evaluate(lonely, plan(0, 1, NOBODY, NOBODY)).unassigned == 1


def test_member_without_rack_crosses_none(problem: Problem) -> None:
    """A member without a rack reads nothing across racks, and an unassigned partition is not read."""
    assert not cross_rack_mask(problem, plan(1, 1, 1, NOBODY)).any()


@given(groups.problems(), st.randoms(use_true_random=False))
def test_cost_agrees_with_brute_force(problem: Problem, dice: object) -> None:
    """On any plan the cost equals a direct computation from the definitions."""
    plans = groups.all_plans(problem)
    index = dice.randrange(len(plans))  # type: ignore[attr-defined]  # hypothesis types it as object
    cost, loads = evaluate(problem, plans[index]), groups.loads(problem, plans)[index]
    assert cost.imbalance == loads.max() - loads.min()
    assert cost.sum_of_squares == (loads**2).sum()
    assert cost.cross_rack_weight == groups.cross_rack_weights(problem, plans)[index]
    assert cost.moved == groups.moves(problem, plans)[index]


def test_group_without_members_costs_nothing() -> None:
    """A problem without members costs zero, and its partitions count as unassigned."""
    empty = build_problem(topics={"t": [["a"]]}, members=[])
    cost = evaluate(empty, plan(NOBODY))
    assert (cost.imbalance, cost.sum_of_squares, cost.cross_rack, cost.moved, cost.unassigned) == (0, 0, 0, 0, 1)


def test_withholds_what_another_member_owns(problem: Problem) -> None:
    """A cooperative round assigns what stays and what had no owner, and withholds what would change its owner."""
    assert withhold(problem, plan(1, 1, 0, 2)).tolist() == [NOBODY, 1, 0, 2]
    assert transferring(problem, plan(1, 1, 0, 2)).tolist() == [True, False, False, False]


@given(groups.problems())
def test_two_cooperative_rounds_reach_the_plan(problem: Problem) -> None:
    """After owners have revoked what was withheld, the next plan is complete and has the same cross-rack weight."""
    final = assign(problem)
    first = withhold(problem, final)
    check(problem, first, cooperative=True)
    second = replace(problem, owner=first)
    assert evaluate(problem, assign(second)).cross_rack_weight == evaluate(problem, final).cross_rack_weight
    check(second, withhold(second, assign(second)), cooperative=True)
    assert NOBODY not in assign(second)[groups.subscribes(problem).any(axis=1)]


@pytest.mark.parametrize(
    ("owner", "cooperative", "message"),
    [
        (plan(0, 1, 1), False, "one owner for each of 4"),
        (plan(0, 1, 7, 2), False, "t-2 names a member that does not exist"),
        (plan(0, 1, -2, 2), False, "t-2 names a member that does not exist"),
        (plan(0, 1, 2, 2), False, r"t-2 \(member 'm2'\) goes to a member that does not subscribe"),
        (plan(NOBODY, 1, NOBODY, 2), False, "t-0 is not assigned.*, and 1 more"),
        (plan(NOBODY, 1, NOBODY, 2), True, "t-2 is not assigned"),
        (plan(1, 1, 1, 2), True, r"t-0 \(member 'm1'\) was not withheld"),
    ],
)
def test_wrong_plans_are_refused(problem: Problem, owner: Int32Array, message: str, *, cooperative: bool) -> None:
    """The error names what is wrong, with the partition and the member."""
    with pytest.raises(AssignmentError, match=message):
        check(problem, owner, cooperative=cooperative)


def test_right_plans_pass(problem: Problem) -> None:
    """A complete plan passes, and so does a cooperative one that withholds."""
    check(problem, plan(1, 0, 0, 2), cooperative=False)
    check(problem, plan(NOBODY, NOBODY, 0, 2), cooperative=True)
