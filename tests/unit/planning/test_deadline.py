"""Plans are ready in time for any group."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from samerack.assignors.check import check
from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS, Options
from samerack.assignors.problem import NOBODY, AssignmentError, Problem
from samerack.offline.assign import answer_of, solve
from samerack.offline.assign_json import parse
from samerack.planning import deadline
from samerack.planning.deadline import LateError, assign_aside, assign_in_time, is_small
from samerack.planning.mode import Mode
from samerack.planning.planner import make_plan

MODE = Mode(cooperative=False, keep_copartitioned=False, rack_aware_fetch=True)


def group(partitions: int, members: int, *, topics: int = 1, subscriptions: int = 1, weighted: bool = False) -> Problem:
    """A group with random racks, subscriptions of half of the topics, and weights that all differ."""
    dice = np.random.default_rng(54)
    per_topic = partitions // topics
    order = np.argsort(dice.random((partitions, 3)), axis=1)
    replica_racks = np.zeros((partitions, 3), np.bool_)
    replica_racks[np.arange(partitions), order[:, 0]] = True
    wanted = dice.random((subscriptions, topics)) < 0.5 if subscriptions > 1 else np.ones((1, topics), np.bool_)
    return Problem(
        topics=tuple(f"t{number:05}" for number in range(topics)),
        topic_of=np.repeat(np.arange(topics, dtype=np.int32), per_topic),
        number_of=np.tile(np.arange(per_topic, dtype=np.int32), topics),
        racks=("a", "b", "c"),
        replica_racks=replica_racks,
        leader_rack=order[:, 0].astype(np.int32),
        weights=dice.permutation(partitions) + 1 if weighted else None,
        members=tuple(f"m{number:05}" for number in range(members)),
        instance_ids=(None,) * members,
        member_rack=(np.arange(members) % 3).astype(np.int32),
        reads_any_replica=np.ones(members, np.bool_),
        subscription_of=(np.arange(members) % subscriptions).astype(np.int32),
        subscriptions=wanted,
        owner=np.full(partitions, NOBODY, np.int32),
    )


FIXED = {
    "fewer partitions than members": group(3, 50),
    "empty topics": group(0, 3, topics=5),
    "one member": group(1000, 1),
    "10,000 members": group(20_000, 10_000),
    "all weights different": group(20_000, 100, weighted=True),
    "unequal subscriptions": group(2_000, 200, topics=100, subscriptions=200),
}


@pytest.mark.parametrize("case", FIXED)
@pytest.mark.parametrize("name", ["optimal", "range", "range-optimal", "roundrobin", "sticky"])
def test_fixed_cases_are_in_time(name: str, case: str) -> None:
    """Every assignor plans every one of these groups, within a deadline at which it would be stopped."""
    owner, _ = assign_in_time(name, FIXED[case], DEFAULTS)
    check(FIXED[case], owner, cooperative=False)


def test_late_plans_give_way_to_range() -> None:
    """A group that takes too long gets range's plan soon after the deadline, with the reason."""
    hard = group(400_000, 2_000, topics=1_000, subscriptions=2_000, weighted=True)
    plan = make_plan(hard, replace(MODE, deadline_seconds=0.8))
    assert plan.assignor == "range"
    assert plan.failure is not None
    assert plan.failure.startswith("LateError: no plan within 0.4 s")


def test_the_other_process_plans_as_this_one() -> None:
    """A problem that is too large for this process gets the same plan from another one, which is used again."""
    problem = FIXED["unequal subscriptions"]
    here, _ = assign_in_time("optimal", problem, Options(max_skew=1))
    assert not is_small(problem, 0.01)
    for _ in range(2):
        there, nanos = deadline._assign_in_worker(("optimal", problem, Options(max_skew=1), 30.0), 30.0)
        assert there.tolist() == here.tolist()
        assert nanos > 0
    assert len(deadline._idle) == 1


def test_the_other_process_reports_what_is_wrong() -> None:
    """An error of the assignor is raised here, and the process continues."""
    wrong = ("optimal", FIXED["one member"], Options(max_skew=-1), 30.0)
    with pytest.raises(AssignmentError, match="max_skew -1"):
        deadline._assign_in_worker(wrong, 30.0)


def test_the_other_process_is_killed_when_time_is_up() -> None:
    """A time that is too short raises an error and leaves no process."""
    problem = FIXED["unequal subscriptions"]
    with pytest.raises(LateError, match=r"no plan within 0\.001 s"):
        deadline._assign_in_worker(("optimal", problem, DEFAULTS, 0.001), 0.001)


def test_a_million_partitions_that_are_alike_are_small() -> None:
    """A large group is planned in this process if few of its partitions differ; bundles are never counted so."""
    large = group(1_000_000, 20)
    assert is_small(large, 5.0, merges_alike=True)
    assert not is_small(large, 5.0)
    assert not is_small(large, 0.1, merges_alike=True)  # to go through its arrays takes longer
    assert not is_small(replace(large, weights=np.arange(1, 1_000_001)), 5.0, merges_alike=True)
    owned = replace(large, owner=(np.arange(1_000_000) % 20).astype(np.int32))
    assert deadline._units(large) * 20 >= deadline._units(owned) > deadline._units(large)
    differing = group(50_000, 2_000, topics=100, subscriptions=2_000)
    assert not is_small(differing, 5.0, merges_alike=True)


def test_weights_beyond_the_solver_are_not_small() -> None:
    """Weights that may need unbounded integers, which are slow, are never planned in this process."""
    problem = group(300, 3)
    assert is_small(problem, 5.0)
    assert not is_small(replace(problem, weights=np.full(300, 1 << 50)), 5.0)
    assert not is_small(problem, 0.01)


def test_range_leaves_racks_alone_where_they_would_take_too_long() -> None:
    """The fallback for a very large group is ready within the reserve, as ranges without racks."""
    vast = group(300_000, 3_000, topics=300, subscriptions=500)
    owner = deadline.fall_back(vast, seconds=1.0)
    check(vast, owner, cooperative=False)
    rackless = replace(vast, member_rack=np.full(len(vast.members), NOBODY, np.int32))
    assert owner.tolist() == deadline.fall_back(rackless, seconds=60.0).tolist()


def test_answer_says_that_it_is_late() -> None:
    """A question with too short a deadline is answered with range's plan, and the answer says so."""
    question = {
        "assignor": "sticky",
        "brokers": [{"id": 0, "rack": "a"}],
        "topics": {f"t{number}": [[0]] * 100 for number in range(30)},
        "members": [{"id": f"m{number}", "topics": [f"t{number}", "t0"], "rack": "a"} for number in range(30)],
        "deadline_seconds": 0.002,
    }
    answer = answer_of(solve(parse(json.dumps(question))))
    assert (answer["fell_back"], answer["reason"]) == ("range", "no plan within 0.001 s")
    assert sum(len(pairs) for pairs in answer["assignment"].values()) == 3000


def test_a_plan_that_nobody_waits_for_is_made_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same plan; a small group is planned here, as that takes a moment only; a late plan is none."""
    large, small = group(5_000, 100, weighted=True), group(30, 3)
    expected = ASSIGNORS["optimal"].assign(large, DEFAULTS)
    asked: list[float] = []
    real = deadline._assign_in_worker

    def counted(question: Any, seconds: float) -> Any:
        asked.append(seconds)
        return real(question, seconds)

    monkeypatch.setattr(deadline, "_assign_in_worker", counted)
    assert np.array_equal(assign_aside("optimal", large), expected)
    assert len(assign_aside("optimal", small)) == 30
    assert asked == [deadline.DEADLINE_SECONDS]
    monkeypatch.setattr(deadline, "DEADLINE_SECONDS", 0.0)
    with pytest.raises(AssignmentError, match="no plan within 0 s"):
        assign_aside("optimal", large)
