"""Among plans with equal loads, cross-rack weight and moves, topics are spread over members."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.consumer.optimal import assign
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Int32Array, Problem
from tests.unit.assignors import groups
from tests.unit.assignors.groups import RackConfig


def unspread(problem: Problem, owner: Int32Array) -> tuple[int, int]:
    """The largest count of a topic's partitions on one member, and the sum of the squares of all counts."""
    table = counts(problem, owner)
    return int(table.max(initial=0)), int((table**2).sum())


def weights(problem: Problem, owner: Int32Array) -> int:
    """Sum of the squared weights of the members' partitions."""
    taken = owner != NOBODY
    each = np.ones(len(owner), np.int64) if problem.weights is None else problem.weights
    loads = np.bincount(owner[taken], weights=each[taken], minlength=len(problem.members))
    return int((loads**2).sum())


def counts(problem: Problem, owner: Int32Array) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """[M, T] partitions of each topic on each member."""
    table: np.ndarray[tuple[int, int], np.dtype[np.int64]] = groups.cells(problem, owner[np.newaxis])[0]
    return table


@pytest.mark.parametrize("racks", RackConfig)
def test_a_rolling_restart_keeps_topics_spread(racks: RackConfig) -> None:
    """Each member in turn leaves and returns; afterwards no member has more than two partitions of a topic."""
    topics = {f"t{number}": 6 for number in range(6)}
    problem = groups.with_racks(racks, groups.plain(topics, {f"m{number}": list(topics) for number in range(6)}, {}))
    owner = assign(problem)
    for gone in range(6):
        without = _without(replace(problem, owner=owner), gone)
        meanwhile = assign(without)
        back = np.where(meanwhile >= gone, meanwhile + 1, meanwhile).astype(np.int32)
        owner = assign(replace(problem, owner=back))
    assert counts(problem, owner).max() <= 2


def test_members_read_as_much_where_that_costs_nothing() -> None:
    """Every other partition has eight times the weight; each of two members gets two of each kind."""
    problem = replace(groups.plain({"t": 8}, {"m0": ["t"], "m1": ["t"]}, {}), weights=np.array([8, 1] * 4, np.int64))
    assert np.bincount(assign(problem), weights=problem.weights).tolist() == [18.0, 18.0]
    lopsided = replace(problem, owner=np.array([0, 1] * 4, np.int32))
    assert assign(lopsided).tolist() == [0, 1] * 4  # existing owners are not changed for this


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 7), st.sampled_from(RackConfig))
def test_new_groups_of_equals_have_the_least(sizes: list[int], members: int, racks: RackConfig) -> None:
    """Each member has the floor of a topic's partitions per member or one more, whatever its total load."""
    topics = {f"t{number}": size for number, size in enumerate(sizes)}
    names = {f"m{number}": list(topics) for number in range(members)}
    problem = groups.with_racks(racks, groups.plain(topics, names, {}))
    table = counts(problem, assign(problem))
    assert (table.max(axis=0) - table.min(axis=0)).max() <= 1


@given(groups.problems(max_partitions=10, max_members=5))
def test_no_exchange_of_two_betters_a_plan(problem: Problem) -> None:
    """Any swap of two partitions between members costs more, or leaves topics and then weights no better spread."""
    owner = assign(problem)
    cost, before = evaluate(problem, owner), (unspread(problem, owner), weights(problem, owner))
    reads = problem.subscriptions[problem.subscription_of]
    for one, other in combinations(np.flatnonzero(owner != NOBODY).tolist(), 2):
        here, there = owner[one], owner[other]
        if not (reads[there, problem.topic_of[one]] and reads[here, problem.topic_of[other]]):
            continue
        exchanged = owner.copy()
        exchanged[one], exchanged[other] = there, here
        after = evaluate(problem, exchanged)
        if (after.cross_rack_weight, after.moved) == (cost.cross_rack_weight, cost.moved):
            assert (unspread(problem, exchanged), weights(problem, exchanged)) >= before


@given(problem=groups.problems(max_partitions=7, max_members=4), portable=st.booleans())
def test_no_plan_has_topics_spread_better(problem: Problem, *, portable: bool) -> None:
    """No plan with equal loads, cross-rack weight and moves has a smaller largest count or sum of squares."""
    with groups.solver(portable=portable):
        owner = assign(problem)
    plans = np.concatenate([owner[np.newaxis], groups.all_plans(problem)])
    loads = groups.loads(problem, plans)
    levels = ((loads**2).sum(axis=1), groups.cross_rack_weights(problem, plans), groups.moves(problem, plans))
    equal = np.logical_and.reduce([level == level[0] for level in levels])
    cells = groups.cells(problem, plans[equal])
    assert groups.minimum(cells.max(axis=(1, 2), initial=0), (cells**2).sum(axis=(1, 2))) == unspread(problem, owner)


def _without(problem: Problem, gone: int) -> Problem:
    """The group after a member has left."""
    stay = np.arange(len(problem.members)) != gone
    owner = np.where(problem.owner == gone, NOBODY, problem.owner - (problem.owner > gone)).astype(np.int32)
    return replace(
        problem,
        members=tuple(name for name, stays in zip(problem.members, stay, strict=True) if stays),
        instance_ids=tuple(name for name, stays in zip(problem.instance_ids, stay, strict=True) if stays),
        member_rack=problem.member_rack[stay],
        reads_any_replica=problem.reads_any_replica[stay],
        subscription_of=problem.subscription_of[stay],
        owner=owner,
    )
