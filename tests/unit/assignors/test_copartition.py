"""`keep_copartitioned` keeps bundles whole and leagues even, and gives the best plan that does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.optimal import DEFAULTS, Options, assign
from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.assignors.evaluate import evaluate
from samerack.assignors.model import Int32Array, Int64Array, Problem
from tests.unit.assignors import groups
from tests.unit.assignors.groups import RackConfig

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
    best = groups.least(
        (counts**2).sum(axis=1), groups.cross_rack_weights(problem, plans), groups.moves(problem, plans)
    )
    for portable in (False, True):
        owner = assign(problem, TOGETHER, portable=portable)
        _, mine = extras(problem, owner[np.newaxis])
        cost = evaluate(problem, owner)
        assert ((mine**2).sum(), cost.cross_rack_weight, cost.moved) == best


@given(groups.problems())
def test_no_plan_of_whole_bundles_is_nearer(problem: Problem) -> None:
    """With racks first, brute force finds no plan of even leagues that is nearer, then more even, then moves less."""
    plans, counts = extras(problem, groups.all_plans(problem))
    best = groups.least(
        groups.cross_rack_weights(problem, plans), (counts**2).sum(axis=1), groups.moves(problem, plans)
    )
    for portable in (False, True):
        owner = assign(problem, NEAR_FIRST, portable=portable)
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


def test_four_topics_of_independent_replicas() -> None:
    """Range matches few bundles of four topics at replication 1; the optimum reads a third less across racks."""
    dice = np.random.default_rng(881)
    topics: dict[str, list[list[str | None]]] = {
        f"t{number}": [["abc"[rack]] for rack in dice.integers(0, 3, 300)] for number in range(4)
    }
    members = [MemberInput(id=f"m{number:02}", topics=tuple(topics), rack="abc"[number % 3]) for number in range(30)]
    problem = build_problem(topics=topics, members=members)
    costs = {name: evaluate(problem, ASSIGNORS[name].assign(problem, DEFAULTS)) for name in ("range", "range-optimal")}
    assert costs["range"].cross_rack > 0.6 * 1200
    assert costs["range-optimal"].cross_rack < 0.43 * 1200


@pytest.mark.parametrize("racks", RackConfig)
def test_joined_topics_go_together(racks: RackConfig) -> None:
    """Partition i of topics with equal counts has one owner; a topic of another size is spread on its own."""
    problem = groups.with_racks(
        racks,
        groups.plain(
            {"clicks": 5, "orders": 5, "other": 7}, {f"m{n}": ["clicks", "orders", "other"] for n in range(3)}, {}
        ),
    )
    owner = assign(problem, TOGETHER)
    assert owner[:5].tolist() == owner[5:10].tolist()
    assert sorted(np.bincount(owner[:5]).tolist()) == [1, 2, 2]
    assert sorted(np.bincount(owner[10:]).tolist()) == [2, 2, 3]


def test_extras_of_several_leagues_are_spread() -> None:
    """Three leagues with one extra bundle each give it to three members; range gives all three to the first."""
    topics = {"t1": 4, "t2": 7, "t3": 10}
    problem = groups.plain(topics, {f"m{number}": list(topics) for number in range(3)}, {})
    assert np.bincount(assign(problem, TOGETHER)).tolist() == [7, 7, 7]


def test_bundle_stays_where_most_of_it_is() -> None:
    """A bundle whose partitions have several owners goes to the one with most of them."""
    topics: dict[str, list[list[str | None]]] = {f"t{number}": [[], []] for number in range(3)}
    members = [
        MemberInput(id="m0", topics=tuple(topics), owned={"t0": [0], "t1": [1], "t2": [1]}, generation=1),
        MemberInput(id="m1", topics=tuple(topics), owned={"t0": [1], "t1": [0], "t2": [0]}, generation=1),
    ]
    problem = build_problem(topics=topics, members=members)
    owner = assign(problem, TOGETHER)
    assert owner.tolist() == [1, 0] * 3
    assert evaluate(problem, owner).moved == 2
