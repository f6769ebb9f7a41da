"""`keep_copartitioned` keeps bundles whole and leagues even, and gives the best plan that does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given

from samerack.assignors.consumer.optimal import DEFAULTS, Options, assign
from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import Int32Array, Int64Array, Problem
from tests.unit.assignors import groups

TOGETHER = Options(keep_copartitioned=True)
NEAR_FIRST = Options(keep_copartitioned=True, near_first=True)


def leagues(problem: Problem) -> list[tuple[Int64Array, Int64Array]]:
    """[topics, bundles] partitions that belong together, and the members that may have them."""
    found: dict[tuple[bytes, int], list[Int64Array]] = {}
    wants = groups.subscribes(problem)
    for topic in range(len(problem.topics)):
        partitions = np.flatnonzero(problem.topic_of == topic)
        if len(partitions) and wants[partitions[0]].any():
            found.setdefault((wants[partitions[0]].tobytes(), len(partitions)), []).append(partitions)
    return [(np.stack(topics), np.flatnonzero(wants[topics[0][0]])) for topics in found.values()]


def extras(problem: Problem, plans: Int32Array) -> tuple[Int32Array, Int64Array]:
    """The plans that keep bundles whole and leagues even, and the extra bundles of each member in each plan."""
    kept = np.ones(len(plans), np.bool_)
    counts = np.zeros((len(plans), len(problem.members)), np.int64)
    for bundles, members in leagues(problem):
        kept &= (plans[:, bundles] == plans[:, bundles[:1]]).all(axis=(1, 2))
        taken = groups.loads(problem, plans[:, bundles[0]])
        over = taken - bundles.shape[1] // len(members)
        counts[:, members] += over[:, members]
        kept &= ((over[:, members] >= 0) & (over[:, members] <= 1)).all(axis=1)
    return plans[kept], counts[kept]


@given(groups.problems())
def test_no_plan_of_whole_bundles_is_better(problem: Problem) -> None:
    """Brute force over all plans that keep bundles whole and leagues even finds none with a lower objective."""
    plans, counts = extras(problem, groups.all_plans(problem))
    best = groups.minimum(
        (counts**2).sum(axis=1), groups.cross_rack_weights(problem, plans), groups.moves(problem, plans)
    )
    for portable in (False, True):
        with groups.solver(portable=portable):
            owner = assign(problem, TOGETHER)
        _, mine = extras(problem, owner[np.newaxis])
        cost = evaluate(problem, owner)
        assert ((mine**2).sum(), cost.cross_rack_weight, cost.moved) == best


@given(groups.problems())
def test_no_plan_of_whole_bundles_is_nearer(problem: Problem) -> None:
    """With racks first, brute force finds no plan of even leagues that is nearer, then more even, then moves less."""
    plans, counts = extras(problem, groups.all_plans(problem))
    best = groups.minimum(
        groups.cross_rack_weights(problem, plans), (counts**2).sum(axis=1), groups.moves(problem, plans)
    )
    for portable in (False, True):
        with groups.solver(portable=portable):
            owner = assign(problem, NEAR_FIRST)
        _, mine = extras(problem, owner[np.newaxis])
        cost = evaluate(problem, owner)
        assert (cost.cross_rack_weight, (mine**2).sum(), cost.moved) == best


@given(groups.problems(max_partitions=12, max_members=8))
def test_range_optimal_crosses_no_more_than_range(problem: Problem) -> None:
    """Kafka's range is among the plans that `range-optimal` chooses from, so range never reads less across racks."""
    plain = replace(problem, weights=None)
    mine, kafkas = (ASSIGNORS[name].assign(plain, DEFAULTS) for name in ("range-optimal", "range"))
    assert evaluate(plain, mine).cross_rack <= evaluate(plain, kafkas).cross_rack
    assert len(extras(plain, mine[np.newaxis])[0]) == 1
