"""Properties of every task assignor, on random applications of many families."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samerack.assignors.streams.application import ApplicationState
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.plugin import AssignmentError, Outcome, Request, validate_task_assignment
from samerack.assignors.streams.registry import ASSIGNORS
from tests.unit.assignors.streams.applications import after, copies, random_application

if TYPE_CHECKING:
    from collections.abc import Mapping

SEEDS = st.integers(0, 10**6)
FEW = settings(max_examples=min(25, settings().max_examples // 2))

each_assignor = pytest.mark.parametrize("name", sorted(ASSIGNORS))
each_mode = pytest.mark.parametrize("compatible", [False, True])


def run(name: str, state: ApplicationState, *, compatible: bool = False) -> Outcome:
    """The assignor's outcome."""
    return ASSIGNORS[name](Request(state=state, compatible=compatible))


def shuffled(values: Mapping[object, object], dice: Random) -> dict[object, object]:
    """The same entries in another order."""
    items = list(values.items())
    dice.shuffle(items)
    return dict(items)


@each_mode
@each_assignor
@given(seed=SEEDS)
@FEW
def test_every_task_is_active_once_and_has_its_standbys(name: str, seed: int, *, compatible: bool) -> None:
    """Every task is active on exactly one client, and the answer has no error of KIP-924.

    A task has its configured standbys, as far as there are clients; `ha` adds at most the allowed warm-ups.
    """
    state = random_application(seed, name)
    answer = run(name, state, compatible=compatible).assignment
    assert copies(answer, TaskType.ACTIVE) == dict.fromkeys(state.all_tasks, 1)
    assert validate_task_assignment(state, answer) is AssignmentError.NONE
    configs = state.assignment_configs
    found = copies(answer, TaskType.STANDBY)
    wanted = min(configs.num_standby_replicas, len(state.states) - 1)
    extra = {task: found.get(task, 0) - wanted for task, info in state.all_tasks.items() if info.is_changelogged}
    assert min(extra.values(), default=0) >= 0
    assert sum(extra.values()) <= (configs.max_warmup_replicas if name == "ha" else 0)
    assert not found.keys() - extra.keys()


@each_assignor
@given(seed=SEEDS)
@FEW
def test_the_order_of_clients_and_tasks_does_not_matter(name: str, seed: int) -> None:
    """The input order of clients and tasks does not change the outcome."""
    state, dice = random_application(seed, name), Random(seed)  # noqa: S311 - cases, not secrets
    permuted = ApplicationState(
        states=shuffled(state.states, dice),  # type: ignore[arg-type]  # the same values in another order
        all_tasks=shuffled(state.all_tasks, dice),  # type: ignore[arg-type]
        assignment_configs=state.assignment_configs,
    )
    assert run(name, permuted) == run(name, state)


@each_assignor
@given(seed=SEEDS)
@FEW
def test_a_second_run_moves_nothing(name: str, seed: int) -> None:
    """Once the answer is in effect and copies have caught up, a second run repeats it; `ha` first ends its probing."""
    state = random_application(seed, name)
    first = run(name, state)
    while first.probing_rebalance and name == "ha":
        state = after(state, first.assignment)
        first = run(name, state)
    second = run(name, after(state, first.assignment))
    assert second.assignment == first.assignment


@pytest.mark.parametrize("name", ["sticky", "legacy-sticky"])
@given(seed=SEEDS)
@FEW
def test_counts_of_actives_are_those_of_one_deal(name: str, seed: int) -> None:
    """Actives are at least as even over threads as after Kafka's single pass, which `compatible` keeps."""
    state = random_application(seed, name)

    def unevenness(outcome: Outcome) -> float:
        return sum(
            len(assignment.of_type(TaskType.ACTIVE)) ** 2 / state.states[assignment.process_id].num_processing_threads
            for assignment in outcome.assignment.assignment
        )

    assert unevenness(run(name, state)) <= unevenness(run(name, state, compatible=True)) + 1e-9


@given(seed=SEEDS)
@FEW
def test_racks_do_not_change_how_many_actives_a_client_has(seed: int) -> None:
    """KIP-925, 4, constraint 1: if all clients have caught up, racks do not change how many actives a client has."""
    state = random_application(seed, "ha")
    configs = replace(state.assignment_configs, acceptable_recovery_lag=2**63 - 1)
    plans = [
        run("ha", replace(state, assignment_configs=replace(configs, rack_aware_assignment_strategy=strategy)))
        for strategy in ("none", "min_traffic", "balance_subtopology")
    ]
    counts = [[len(assignment.of_type(TaskType.ACTIVE)) for assignment in plan.assignment.assignment] for plan in plans]
    assert counts[0] == counts[1] == counts[2]
