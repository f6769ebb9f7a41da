"""Plans are ready in time for any group."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from samerack.assignors.check import check
from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS, Options
from samerack.assignors.problem import NOBODY, AssignmentError, Int32Array, Problem
from samerack.offline.assign import answer_of, solve
from samerack.offline.assign_json import parse
from samerack.planning import deadline, planner
from samerack.planning.deadline import LateError, assign_aside, assign_in_time, assign_timed, is_small
from samerack.planning.planner import make_plan
from samerack.planning.problem import Mode

MODE = Mode(cooperative=False, rack_aware_fetch=True)


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
def test_fixed_cases_are_planned(name: str, case: str) -> None:
    """Every assignor plans every one of these groups; the deadline is far away, as a busy machine may take long."""
    owner, _ = assign_in_time(name, FIXED[case], DEFAULTS, seconds=60.0)
    check(FIXED[case], owner, cooperative=False)


def test_late_plans_give_way_to_range() -> None:
    """A group that takes too long gets range's plan soon after the deadline, with the reason."""
    hard = group(400_000, 2_000, topics=1_000, subscriptions=2_000, weighted=True)
    plan = make_plan(hard, replace(MODE, deadline_seconds=0.8))
    assert plan.assignor == "range"
    assert plan.failure is not None
    assert plan.failure.startswith("LateError: no plan within 0.4 s")


def test_a_plan_by_load_that_is_late_is_made_by_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is still led by racks, within the deadline, and the failure is reported."""
    problem = replace(group(30, 3), loads=np.arange(30))

    def by_counts_only(name: str, one: Problem, options: Options, *, seconds: float) -> tuple[Int32Array, int]:
        if one.by_load:
            raise LateError(f"no plan within {seconds:g} s")
        return assign_in_time(name, one, options, seconds=seconds)

    monkeypatch.setattr(planner, "assign_in_time", by_counts_only)
    plan = make_plan(problem, replace(MODE, deadline_seconds=8.0))
    assert (plan.assignor, plan.failure) == ("optimal", "LateError: no plan within 4 s")
    assert np.bincount(plan.final).tolist() == [10, 10, 10]
    assert plan.uneven is not None


def test_the_other_process_plans_as_this_one() -> None:
    """A problem that is too large for this process gets the same plan from another one, which is used again."""
    problem, options = FIXED["unequal subscriptions"], Options(max_skew=1)
    assert not is_small(problem)
    here, _ = assign_timed("optimal", problem, options)
    for _ in range(2):
        there, nanos = assign_in_time("optimal", problem, options, seconds=60.0)
        assert there.tolist() == here.tolist()
        assert nanos > 0
    assert len(deadline._idle) == 1


def test_the_other_process_reports_what_is_wrong() -> None:
    """An error of the assignor is raised here, and the process continues."""
    with pytest.raises(AssignmentError, match="max_skew -1"):
        assign_in_time("optimal", FIXED["unequal subscriptions"], Options(max_skew=-1), seconds=60.0)
    assert deadline._idle[-1].is_ready


def test_the_other_process_is_killed_when_time_is_up() -> None:
    """A time that is too short raises an error and leaves no process; the next plan starts another."""
    with pytest.raises(LateError, match=r"no plan within 0\.001 s"):
        assign_in_time("optimal", FIXED["unequal subscriptions"], DEFAULTS, seconds=0.002)
    assert not deadline._idle[-1].is_ready
    owner, _ = assign_in_time("optimal", FIXED["unequal subscriptions"], DEFAULTS, seconds=60.0)
    check(FIXED["unequal subscriptions"], owner, cooperative=False)


def test_what_is_planned_in_this_process() -> None:
    """A thousand partitions are, on many members; not many thousands, and no weights beyond the solver's integers."""
    assert is_small(group(1_000, 100))
    assert is_small(group(5_000, 3))
    assert not is_small(group(10_000, 100))
    assert not is_small(replace(group(300, 3), weights=np.full(300, 1 << 50)))


def test_answer_says_that_it_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question with too short a deadline is answered with range's plan, and the answer says so."""
    # a busy machine may kill the other process only after it has answered
    monkeypatch.setattr(deadline, "in_process", Mock(side_effect=LateError("no plan within 0.001 s")))
    question = {
        "assignor": "sticky",
        "brokers": [{"id": 0, "rack": "a"}],
        "topics": {f"t{number}": [[0]] * 1000 for number in range(30)},
        "members": [{"id": f"m{number}", "topics": [f"t{number}", "t0"], "rack": "a"} for number in range(30)],
        "deadline_seconds": 0.002,
    }
    answer = answer_of(solve(parse(json.dumps(question))))
    assert (answer["fell_back"], answer["reason"]) == ("range", "no plan within 0.001 s")
    assert sum(len(pairs) for pairs in answer["assignment"].values()) == 30_000


def test_a_late_plan_that_nobody_waits_for_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same plan as for a group that waits, or none."""
    large = group(10_000, 100, weighted=True)
    assert np.array_equal(assign_aside("optimal", large), ASSIGNORS["optimal"].assign(large, DEFAULTS))
    monkeypatch.setattr(deadline, "in_process", Mock(side_effect=LateError("no plan within 4 s")))
    with pytest.raises(AssignmentError, match="no plan within 4 s"):
        assign_aside("optimal", large)
