"""Flows that start with a few of many edges reach the same result as flows with all edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from samerack.assignors import balance
from samerack.assignors.consumer.optimal import assign
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Problem
from tests.unit.assignors import groups


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every group counts as one with many edges, half of which are tried first."""
    monkeypatch.setattr(balance, "DENSE", 0)
    monkeypatch.setattr(balance, "A_FEW", 1)
    return monkeypatch


@pytest.mark.usefixtures("few")
@given(groups.problems())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_plan_is_better(problem: Problem) -> None:
    """Brute force over every plan finds none with a lower objective."""
    assert groups.rank(evaluate(problem, assign(problem))) == groups.best_rank(problem)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_many_edges_cost_the_same(few: pytest.MonkeyPatch, seed: int, *, weighted: bool) -> None:
    """With half of the topics for each member, plans cost the same with few edges at first and with all."""
    problem = wide(seed, weighted=weighted)
    with_few = evaluate(problem, assign(problem))
    few.setattr(balance, "A_FEW", 3)
    with_some = evaluate(problem, assign(problem))
    few.setattr(balance, "DENSE", 10**9)
    with_all = evaluate(problem, assign(problem))
    assert groups.rank(with_few) == groups.rank(with_some) == groups.rank(with_all)


def wide(seed: int, *, weighted: bool) -> Problem:
    """60 members with half of 40 topics each, on four racks, with owned partitions at random."""
    dice = np.random.default_rng(seed)
    members, topics, each, racks = 60, 40, 10, 4
    replica_racks = dice.random((topics * each, racks)) < 0.3
    subscriptions = dice.random((members, topics)) < 0.5
    topic_of = np.repeat(np.arange(topics, dtype=np.int32), each)
    problem = Problem(
        topics=tuple(f"t{number:02}" for number in range(topics)),
        topic_of=topic_of,
        number_of=np.tile(np.arange(each, dtype=np.int32), topics),
        racks=tuple("abcd"),
        replica_racks=replica_racks,
        leader_rack=np.full(topics * each, NOBODY, np.int32),
        weights=dice.integers(1, 50, topics * each) if weighted else None,
        members=tuple(f"m{number:02}" for number in range(members)),
        instance_ids=(None,) * members,
        member_rack=dice.integers(-1, racks, members).astype(np.int32),
        reads_any_replica=np.ones(members, np.bool_),
        subscription_of=np.arange(members, dtype=np.int32),
        subscriptions=subscriptions,
        owner=np.full(topics * each, NOBODY, np.int32),
    )
    owner = dice.integers(0, members, topics * each).astype(np.int32)
    return replace(problem, owner=np.where(subscriptions[owner, topic_of], owner, NOBODY).astype(np.int32))
