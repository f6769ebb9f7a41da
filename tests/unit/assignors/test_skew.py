"""`max_skew` allows members more than their fair share, and takes the nearest plan that this allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.check import check
from samerack.assignors.consumer.optimal import Options, assign
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import AssignmentError, Int32Array, Int64Array, Problem
from tests.unit.assignors import groups


def within(problem: Problem, plans: Int32Array, skew: int) -> Int32Array:
    """The plans in which each member has at most `skew` partitions more than in any of the least unequal plans."""
    loads = groups.loads(problem, plans)
    squares = (loads**2).sum(axis=1)
    share: Int64Array = loads[squares == squares.min()].max(axis=0)
    return plans[(loads <= share + skew).all(axis=1)]


@given(groups.problems(), st.integers(1, 4))
def test_no_plan_within_the_skew_is_nearer(problem: Problem, skew: int) -> None:
    """Brute force over all plans within the skew finds none with a lower (cross-rack weight, balance, moves)."""
    plans = within(problem, groups.all_plans(problem), skew)
    squares = (groups.loads(problem, plans) ** 2).sum(axis=1)
    best = groups.minimum(groups.cross_rack_weights(problem, plans), squares, groups.moves(problem, plans))
    for portable in (False, True):
        with groups.solver(portable=portable):
            owner = assign(problem, Options(max_skew=skew))
        cost = evaluate(problem, owner)
        assert (cost.cross_rack_weight, cost.sum_of_squares, cost.moved) == best
        assert owner.tolist() in plans.tolist()


@given(groups.problems(max_partitions=12, max_members=8), st.integers(1, 12))
def test_skewed_plan_is_a_plan(problem: Problem, skew: int) -> None:
    """Each partition has one subscriber, no plan of less skew is nearer, and a second run moves nothing."""
    owner = assign(problem, Options(max_skew=skew))
    check(problem, owner, cooperative=False)
    less = evaluate(problem, assign(problem, Options(max_skew=skew - 1)))
    assert evaluate(problem, owner).cross_rack_weight <= less.cross_rack_weight
    assert assign(replace(problem, owner=owner), Options(max_skew=skew)).tolist() == owner.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(max_skew=-1), "max_skew -1: expected"),
        (Options(max_skew=1, keep_copartitioned=True), "do not go together"),
    ],
)
def test_wrong_options_are_refused(options: Options, message: str) -> None:
    """The error names a negative skew, and a skew together with bundles."""
    with pytest.raises(AssignmentError, match=message):
        assign(groups.plain({"t": 1}, {"m": ["t"]}, {}), options)
