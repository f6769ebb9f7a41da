"""Follow-up rebalances are followed to their end: where the tasks are then, and how many had to wait for state."""

from __future__ import annotations

import pytest

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.application import (
    ApplicationState,
    task_id,
)
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.ha import high_availability
from samerack.assignors.streams.plugin import Outcome, Request
from samerack.assignors.streams.registry import MAX_ROUNDS, settle
from samerack.assignors.streams.sticky import sticky
from tests.unit.assignors.streams.applications import application, process, tasks

TASKS = [task_id(f"0_{number}") for number in range(4)]


def crossed(*, max_warmups: int = 1) -> ApplicationState:
    """Two clients that read everything from each other's rack; all state is where it is read now."""
    return application(
        tasks("0_0 0_1 0_2 0_3", source=list("bbaa"), changelog="ab"),
        {"rack": "a", "active": "0_0 0_1"},
        {"rack": "b", "active": "0_2 0_3"},
        max_warmup_replicas=max_warmups,
        rack_aware_assignment_strategy="min_traffic",
    )


@pytest.mark.parametrize("max_warmups", [1, 2, 10])
def test_ha_ends_on_its_targets(max_warmups: int) -> None:
    """At first all tasks stay where their state is; in the end all are near, however many may warm up at a time."""
    state = crossed(max_warmups=max_warmups)
    final = settle(high_availability, Request(state=state))
    first = {one.process_id: one.of_type(TaskType.ACTIVE) for one in final.first.assignment.assignment}
    assert first == {process(1): frozenset(TASKS[:2]), process(2): frozenset(TASKS[2:])}
    last = {one: plan.of_type(TaskType.ACTIVE) for one, plan in final.assignments.items()}
    assert last == {process(1): frozenset(TASKS[2:]), process(2): frozenset(TASKS[:2])}
    assert final.warm_ups == 4
    assert not final.last.probing_rebalance


def test_sticky_ends_at_once() -> None:
    """An assignor without warm-ups has one outcome, and no task waits."""
    final = settle(sticky, Request(state=crossed()))
    assert final.first is final.last
    assert final.warm_ups == 0


def test_an_assignor_that_never_ends_is_an_error() -> None:
    """An assignor that requests follow-ups for ever is refused, not followed for ever."""
    rounds = []

    def restless(request: Request) -> Outcome:
        rounds.append(request)
        outcome = high_availability(request)
        return Outcome(assignment=outcome.assignment, probing_rebalance=True)

    with pytest.raises(AssignmentError, match=f"after {MAX_ROUNDS} rebalances"):
        settle(restless, Request(state=crossed()))
    assert len(rounds) == MAX_ROUNDS
