"""KIP-924's model: what a value contains, what it refuses, and every error of an assignment."""

from __future__ import annotations

from uuid import UUID

import pytest

from samerack.assignors.problem import AssignmentError as InvalidError
from samerack.assignors.streams.application import (
    LATEST_OFFSET,
    ApplicationState,
    AssignmentConfigs,
    KafkaStreamsState,
    LagsNotComputedError,
    ProcessId,
    Strategy,
    TaskAssignmentError,
    TaskInfo,
    TaskTopicPartition,
    strategy_named,
    task_id,
)
from samerack.assignors.streams.assignment import AssignedTask, TaskType, assignment_of
from samerack.assignors.streams.optimize import RackAwareOptimizationParams
from samerack.assignors.streams.plugin import identity_assignment
from tests.unit.assignors.streams.applications import process

STATEFUL, STATELESS = task_id("0_0"), task_id("1_0")


def application(**states: KafkaStreamsState) -> ApplicationState:
    """One stateful and one stateless task, and two clients unless others are given."""
    clients = states.values() or [KafkaStreamsState(process_id=process(1)), KafkaStreamsState(process_id=process(2))]
    changelog = TaskTopicPartition(topic="c", partition=0, is_source=False, is_changelog=True)
    return ApplicationState(
        states={state.process_id: state for state in clients},
        all_tasks={
            STATELESS: TaskInfo(id=STATELESS),
            STATEFUL: TaskInfo(id=STATEFUL, is_stateful=True, topic_partitions=(changelog,)),
        },
    )


@pytest.mark.parametrize("text", ["0_1", "17_23", "name__0_1", "a__b__2_3"])
def test_task_ids_read_and_write_alike(text: str) -> None:
    """A task id is written as it was read."""
    assert str(task_id(text)) == text


@pytest.mark.parametrize("text", ["", "0", "0_", "a_1", "0_1_2", "-1_0"])
def test_a_wrong_task_id_is_refused(text: str) -> None:
    """A malformed task id is refused with an example of a valid one."""
    with pytest.raises(InvalidError, match="for example 0_1"):
        task_id(text)


def test_tasks_are_ordered_by_numbers() -> None:
    """Tasks are ordered by subtopology, then partition, as numbers."""
    texts = ["10_0", "2_1", "2_10", "2_9"]
    assert [str(task) for task in sorted(map(task_id, texts))] == ["2_1", "2_9", "2_10", "10_0"]


def test_processes_are_ordered_as_in_java() -> None:
    """An id whose first bit is set comes before others, since Java compares signed halves."""
    negative, positive = ProcessId(uuid=UUID(int=1 << 127)), ProcessId(uuid=UUID(int=1))
    low_negative = ProcessId(uuid=UUID(int=1 << 63))
    assert sorted([positive, low_negative, negative]) == [negative, low_negative, positive]


def test_kip_924_kafka_streams_state_lag_for_fails_without_lags() -> None:
    """KIP-924, KafkaStreamsState: all three methods that need lags fail if lags were not requested."""
    state = application(a=KafkaStreamsState(process_id=process(1), lags={STATEFUL: 3})).kafka_streams_states(
        compute_task_lags=False
    )[process(1)]
    for ask in (
        lambda: state.lag_for(STATEFUL),
        state.stateful_tasks_to_lag_sums,
        lambda: state.prev_tasks_by_lag("c"),
    ):
        with pytest.raises(LagsNotComputedError, match="compute_task_lags=True"):
            ask()


def test_kip_924_kafka_streams_state_orders_previous_tasks_by_lag() -> None:
    """KIP-924, KafkaStreamsState: previous tasks of a consumer are ordered by lag, without unknown tasks."""
    tasks = [task_id(text) for text in ("0_0", "0_1", "0_2")]
    state = KafkaStreamsState(
        process_id=process(1),
        previous_tasks_by_consumer={"c": frozenset([*tasks, task_id("9_9")])},
        lags=dict(zip(tasks, (7, LATEST_OFFSET, 7), strict=True)),
    )
    assert [str(task) for task in state.prev_tasks_by_lag("c")] == ["0_1", "0_0", "0_2"]
    assert state.prev_tasks_by_lag("other") == ()
    assert state.lag_for(tasks[1]) == LATEST_OFFSET
    with pytest.raises(InvalidError, match="9_9"):
        state.lag_for(task_id("9_9"))


def test_kip_924_application_state_fails_where_lags_cannot_be_had() -> None:
    """KIP-924, ApplicationState: a request for lags that could not be fetched raises the error that means retry."""
    with pytest.raises(TaskAssignmentError, match="retried"):
        application().kafka_streams_states(compute_task_lags=True)


def test_an_application_is_kept_in_order() -> None:
    """Clients and tasks are kept in ascending order, whatever the input order."""
    clients = {
        process(2): KafkaStreamsState(process_id=process(2)),
        process(1): KafkaStreamsState(process_id=process(1)),
    }
    state = ApplicationState(states=clients, all_tasks=application().all_tasks)
    assert list(state.states) == [process(1), process(2)]
    assert list(state.all_tasks) == [STATEFUL, STATELESS]


def test_an_assignment_gives_a_task_one_role() -> None:
    """A task cannot silently change its role: Kafka's map would lose the standby."""
    standby = assignment_of(process(1), standby=[STATEFUL])
    with pytest.raises(InvalidError, match="remove it before"):
        standby.assign(AssignedTask(id=STATEFUL, type=TaskType.ACTIVE))
    kept = standby.remove(AssignedTask(id=STATEFUL, type=TaskType.ACTIVE))
    assert kept.of_type(TaskType.STANDBY) == {STATEFUL}
    moved = standby.remove(AssignedTask(id=STATEFUL, type=TaskType.STANDBY)).assign(
        AssignedTask(id=STATEFUL, type=TaskType.ACTIVE)
    )
    assert moved.tasks == {STATEFUL: TaskType.ACTIVE}
    assert standby.tasks == {STATEFUL: TaskType.STANDBY}


def test_kip_924_followup_rebalance_keeps_client_and_tasks() -> None:
    """KIP-924, KafkaStreamsAssignment: a follow-up request returns a new value with the same client and tasks."""
    before = assignment_of(process(1), active=[STATEFUL])
    after = before.with_followup_rebalance(1234)
    assert (after.process_id, after.tasks, after.followup_rebalance_deadline) == (process(1), before.tasks, 1234)
    assert before.followup_rebalance_deadline is None


def test_kip_924_identity_assignment_copies_the_previous_one() -> None:
    """KIP-924, TaskAssignmentUtils: the identity assignment repeats what every client reported."""
    state = KafkaStreamsState(
        process_id=process(1),
        previous_active_tasks=frozenset([STATELESS]),
        previous_standby_tasks=frozenset([STATEFUL]),
    )
    plan = identity_assignment(application(a=state, b=KafkaStreamsState(process_id=process(2))))
    assert plan[process(1)].tasks == {STATELESS: TaskType.ACTIVE, STATEFUL: TaskType.STANDBY}
    assert plan[process(2)].tasks == {}


def test_kip_924_optimization_params_are_new_values() -> None:
    """KIP-924, RackAwareOptimizationParams: stateful, stateless, given tasks and overrides each give a new value."""
    params = RackAwareOptimizationParams(application_state=application())
    assert params.tasks_to_optimize is None
    assert params.for_stateful_tasks().tasks_to_optimize == frozenset({STATEFUL})
    assert params.for_stateless_tasks().tasks_to_optimize == frozenset({STATELESS})
    changed = params.for_tasks([STATELESS]).with_traffic_cost_override(5).with_non_overlap_cost_override(0)
    assert (changed.traffic_cost_override, changed.non_overlap_cost_override) == (5, 0)
    assert changed.tasks_to_optimize == frozenset({STATELESS})
    with pytest.raises(InvalidError, match="negative"):
        params.with_traffic_cost_override(-1)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("none", Strategy.NONE),
        ("NONE", Strategy.NONE),
        ("min_traffic", Strategy.MIN_TRAFFIC),
        ("min_cost", Strategy.MIN_TRAFFIC),
        ("balance_subtopology", Strategy.BALANCE_SUBTOPOLOGY),
        ("balanced_min_cost", Strategy.BALANCE_SUBTOPOLOGY),
    ],
)
def test_kip_925_strategies_have_all_their_names(name: str, strategy: Strategy) -> None:
    """KIP-925, 4.B.III and 5: strategies are accepted by the document's names and by Kafka's."""
    assert strategy_named(name) is strategy


def test_unknown_strategies_and_settings_are_refused() -> None:
    """An unknown strategy or an invalid number is refused by name."""
    with pytest.raises(InvalidError, match="balance_subtopology"):
        strategy_named("fast")
    with pytest.raises(InvalidError, match="max_warmup_replicas is 0"):
        AssignmentConfigs(max_warmup_replicas=0)
    with pytest.raises(InvalidError, match="threads"):
        KafkaStreamsState(process_id=process(1), num_processing_threads=0)
