"""KIP-924's optimisation on named tasks: what disables it, what it keeps, and where it differs from Kafka."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import (
    ApplicationState,
    AssignmentConfigs,
    KafkaStreamsState,
    ProcessId,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
    task_id,
)
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType, assignment_of
from samerack.assignors.streams.evaluate import bill, spread
from samerack.assignors.streams.optimize import (
    ObstacleKind,
    RackAwareOptimizationParams,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
    tag_warnings,
)
from samerack.offline.streams_json import Application, StreamsQuestion
from tests.unit.assignors.streams.applications import application, process, tasks
from tests.unit.assignors.streams.questions import optimize_question

if TYPE_CHECKING:
    from collections.abc import Iterable

Plan = dict[ProcessId, KafkaStreamsAssignment]

TASKS = [task_id("0_0"), task_id("0_1")]


def crossed(racks: Iterable[str | None] = ("a", "b"), **configs: object) -> ApplicationState:
    """Two tasks that read from racks b and a, with changelogs in racks a and b, and a client in each rack."""
    settings: dict[str, object] = {
        "rack_aware_traffic_cost": 10,
        "rack_aware_non_overlap_cost": 1,
        "rack_aware_assignment_strategy": "min_traffic",
    }
    infos = tasks("0_0", source=["b"], changelog="a") | tasks("0_1", source=["a"], changelog="b")
    return application(infos, *({"rack": rack} for rack in racks), **(settings | configs))


def straight(*, standby: bool = False) -> Plan:
    """0_0 on the first client, 0_1 on the second; with `standby`, each client has a standby of the other's task."""
    first, second = TASKS
    return {
        process(1): assignment_of(process(1), active=[first], standby=[second] if standby else []),
        process(2): assignment_of(process(2), active=[second], standby=[first] if standby else []),
    }


def actives(plan: Plan) -> dict[ProcessId, frozenset[TaskId]]:
    """Active tasks by client."""
    return {process: assignment.of_type(TaskType.ACTIVE) for process, assignment in plan.items()}


def params(state: ApplicationState) -> RackAwareOptimizationParams:
    """Parameters without overrides."""
    return RackAwareOptimizationParams(application_state=state)


def test_actives_go_where_they_read_least() -> None:
    """Two tasks that read across racks swap clients."""
    done = optimize_rack_aware_active_tasks(params(crossed()), straight())
    assert done.obstacle is None
    assert actives(done.assignments) == {process(1): {TASKS[1]}, process(2): {TASKS[0]}}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (crossed(rack_aware_assignment_strategy="none"), ObstacleKind.STRATEGY_IS_NONE),
        (crossed(rack_aware_assignment_strategy="NONE"), ObstacleKind.STRATEGY_IS_NONE),
        (crossed(rack_aware_traffic_cost=None), ObstacleKind.NO_TRAFFIC_COST),
        (crossed(rack_aware_non_overlap_cost=None), ObstacleKind.NO_NON_OVERLAP_COST),
        (crossed(["a", None]), ObstacleKind.CLIENT_WITHOUT_RACK),
        (crossed(["a", ""]), ObstacleKind.CLIENT_WITHOUT_RACK),
        (crossed(["a", "a"]), ObstacleKind.ALL_PLACES_COST_THE_SAME),
        (crossed(rack_aware_traffic_cost=0), ObstacleKind.ALL_PLACES_COST_THE_SAME),
    ],
)
def test_kip_925_when_rack_awareness_is_off(state: ApplicationState, reason: ObstacleKind) -> None:
    """KIP-925, 5 and 6: each rule that disables rack awareness keeps the plan and names the reason."""
    done = optimize_rack_aware_active_tasks(params(state), straight())
    assert done.obstacle is not None
    assert (done.obstacle.reason, done.assignments) == (reason, straight())
    assert done.obstacle.message


def test_kip_925_a_partition_without_rack_switches_it_off_where_it_matters() -> None:
    """KIP-925, 6: only tasks to optimise need the racks of what they read; in Kafka all tasks do."""
    state = crossed()
    blind = TaskInfo(id=task_id("1_0"), topic_partitions=(TaskTopicPartition(topic="x", partition=0),))
    wider = replace(state, all_tasks={**state.all_tasks, blind.id: blind})
    plan = straight() | {process(1): assignment_of(process(1), active=[TASKS[0], blind.id])}
    all_tasks, some = params(wider), params(wider).for_tasks(TASKS)
    for given, compatible in ((all_tasks, False), (all_tasks, True), (some, True)):
        obstacle = optimize_rack_aware_active_tasks(given, plan, compatible=compatible).obstacle
        assert obstacle is not None
        assert obstacle.reason is ObstacleKind.PARTITION_WITHOUT_RACK
        assert "x-0 of task 1_0" in obstacle.message
    assert optimize_rack_aware_active_tasks(some, plan).obstacle is None


def test_kip_924_traffic_cost_zero_keeps_the_plan() -> None:
    """KIP-924, TaskAssignmentUtils: traffic cost 0 with a non-overlap cost returns the input, with both strategies."""
    for strategy in ("min_traffic", "balance_subtopology"):
        state = crossed(rack_aware_traffic_cost=0, rack_aware_assignment_strategy=strategy)
        plan = {process(1): assignment_of(process(1), active=TASKS), process(2): assignment_of(process(2))}
        assert optimize_rack_aware_active_tasks(params(state), plan).assignments == plan


def test_kip_924_non_overlap_cost_zero_gives_the_least_traffic() -> None:
    """KIP-924, TaskAssignmentUtils: non-overlap cost 0 with a traffic cost gives the minimum traffic."""
    done = optimize_rack_aware_active_tasks(params(crossed(rack_aware_non_overlap_cost=0)), straight())
    free = bill(crossed(), straight(), done.assignments, TaskType.ACTIVE, Costs(traffic=1, non_overlap=0))
    assert free.cross_rack == 0


def test_overrides_stand_in_for_configured_costs() -> None:
    """An override replaces a cost that is not configured; in Kafka, and with `compatible`, it does not."""
    given = params(crossed(rack_aware_traffic_cost=None)).with_traffic_cost_override(10)
    assert optimize_rack_aware_active_tasks(given, straight()).obstacle is None
    obstacle = optimize_rack_aware_active_tasks(given, straight(), compatible=True).obstacle
    assert obstacle is not None
    assert obstacle.reason is ObstacleKind.NO_TRAFFIC_COST
    expensive = params(crossed()).with_non_overlap_cost_override(100)
    assert optimize_rack_aware_active_tasks(expensive, straight()).assignments == straight()


def test_changelogs_do_not_weigh_on_actives() -> None:
    """An active reads only its sources; Kafka's public utility counts changelogs too and gains nothing here."""
    done = optimize_rack_aware_active_tasks(params(crossed()), straight(), compatible=True)
    assert actives(done.assignments) == actives(straight())


def test_an_active_changes_places_with_its_standby() -> None:
    """No standby is lost when an active moves to its client; Kafka's map overwrites both standbys here."""
    state = crossed()
    done = optimize_rack_aware_active_tasks(params(state), straight(standby=True)).assignments
    assert actives(done) == {process(1): {TASKS[1]}, process(2): {TASKS[0]}}
    assert spread(state, done).standbys == 2
    sources = {
        task: info._replace(topic_partitions=info.topic_partitions[:1]) for task, info in state.all_tasks.items()
    }
    simple = replace(state, all_tasks=sources)
    lost = optimize_rack_aware_active_tasks(params(simple), straight(standby=True), compatible=True).assignments
    assert spread(simple, lost).standbys == 0


def test_standbys_go_where_they_read_least() -> None:
    """Standbys count changelogs only, and never move to the client of their active."""
    state = crossed(["a", "b", "a", "b"])
    first, second = TASKS
    plan = {process(n): assignment_of(process(n)) for n in (1, 2, 3, 4)}
    plan[process(1)] = assignment_of(process(1), active=TASKS)
    plan[process(3)] = assignment_of(process(3), standby=[second])
    plan[process(4)] = assignment_of(process(4), standby=[first])
    done = optimize_rack_aware_standby_tasks(params(state), plan)
    assert done.assignments[process(3)].of_type(TaskType.STANDBY) == {first}
    assert done.assignments[process(4)].of_type(TaskType.STANDBY) == {second}
    beside = optimize_rack_aware_standby_tasks(params(crossed()), straight(standby=True))
    assert beside.assignments == straight(standby=True)
    nothing = optimize_rack_aware_standby_tasks(params(crossed()), straight()).obstacle
    assert nothing is not None
    assert nothing.reason is ObstacleKind.NOTHING_TO_OPTIMIZE


def test_tags_restrain_standbys() -> None:
    """A standby does not move into its active's zone to save traffic; in Kafka's public utility it does."""
    state = crossed(["a", "b", "a", "b"], rack_aware_assignment_tags=("zone",))
    zones = {process(1): "z1", process(2): "z2", process(3): "z1", process(4): "z2"}
    states = {p: replace(client, client_tags={"zone": zones[p]}) for p, client in state.states.items()}
    state = replace(state, states=states)
    first, second = TASKS
    plan = {
        process(1): assignment_of(process(1), active=[first]),
        process(2): assignment_of(process(2), active=[second]),
        process(3): assignment_of(process(3), standby=[second]),
        process(4): assignment_of(process(4), standby=[first]),
    }
    assert optimize_rack_aware_standby_tasks(params(state), plan).assignments == plan
    free = optimize_rack_aware_standby_tasks(params(state), plan, compatible=True).assignments
    assert free[process(3)].of_type(TaskType.STANDBY) == {first}


def test_only_named_standbys_move() -> None:
    """`for_tasks` limits which standbys move; in Kafka it hardly has an effect."""
    state = crossed(["a", "b", "a", "b"])
    plan = {process(n): assignment_of(process(n)) for n in (1, 2, 3, 4)}
    plan[process(1)] = assignment_of(process(1), active=TASKS)
    plan[process(3)] = assignment_of(process(3), standby=[TASKS[1]])
    plan[process(4)] = assignment_of(process(4), standby=[TASKS[0]])
    only = params(state).for_tasks([TASKS[0]])
    assert optimize_rack_aware_standby_tasks(only, plan).assignments == plan
    assert optimize_rack_aware_standby_tasks(only, plan, compatible=True).assignments != plan


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({process(1): assignment_of(process(1), active=[TASKS[0]])}, "0_1 is active nowhere"),
        (
            straight() | {process(2): assignment_of(process(2), active=TASKS)},
            "0_0 is active on 00000000-0000-0000-0000-000000000001 and on",
        ),
        (straight() | {process(9): assignment_of(process(9))}, "not part of the application"),
    ],
)
def test_plans_that_cannot_be_optimised_are_refused(plan: Plan, message: str) -> None:
    """A task that is active nowhere or twice, and a client or a task that does not exist, are named."""
    with pytest.raises(AssignmentError, match=message):
        optimize_rack_aware_active_tasks(params(crossed()).for_tasks(TASKS), plan)
    with pytest.raises(AssignmentError, match="7_7 should be optimised"):
        optimize_rack_aware_active_tasks(params(crossed()).for_tasks([task_id("7_7")]), straight())


def test_kip_925_tags_that_contradict_racks_are_warned_of() -> None:
    """KIP-925, 4.D.III: a client.rack az1 requires the tag rack=az1; otherwise there is a warning, and tags decide."""

    def state(tags: tuple[str, ...], **client_tags: str) -> ApplicationState:
        client = KafkaStreamsState(process_id=process(1), rack_id="az1", client_tags=client_tags)
        configs = AssignmentConfigs(rack_aware_assignment_tags=tags)
        return ApplicationState(states={process(1): client}, all_tasks={}, assignment_configs=configs)

    assert tag_warnings(state(("rack",), rack="az1")) == []
    assert tag_warnings(state(())) == []
    assert "no key `rack`" in tag_warnings(state(("zone",), zone="az1"))[0]
    assert "'az2', client.rack is 'az1'" in tag_warnings(state(("rack",), rack="az2"))[0]


def test_a_thousand_clients_whose_tags_contradict_racks_are_one_warning() -> None:
    """It has their number and one of them: each plan's event and log have the warnings."""
    clients = {
        process(number): KafkaStreamsState(
            process_id=process(number), rack_id="az1", client_tags={"rack": "az1" if number == 1 else "az2"}
        )
        for number in range(1, 1001)
    }
    configs = AssignmentConfigs(rack_aware_assignment_tags=("rack",))
    (warning,) = tag_warnings(ApplicationState(states=clients, all_tasks={}, assignment_configs=configs))
    assert "of 999 of 1000 clients" in warning
    assert str(process(2)) in warning


@pytest.mark.parametrize("kind", ["active", "standby"])
def test_invariants_hold_in_every_family(kind: str) -> None:
    """Counts stay, no task is lost, no standby is on its active's client, and a second run moves nothing."""
    run = optimize_rack_aware_active_tasks if kind == "active" else optimize_rack_aware_standby_tasks
    for seed in range(60):
        asked = optimize_question(seed, kind) | {"compatible": False}
        known = Application(StreamsQuestion.model_validate(asked))
        before, given = known.assignments(), known.scope()
        after = run(given, before).assignments
        role = TaskType(kind.upper())
        for other in TaskType:
            was, now = (sorted(t for a in plan.values() for t in a.of_type(other)) for plan in (before, after))
            assert was == now
        assert {p: len(a.of_type(role)) for p, a in after.items()} == {
            p: len(a.of_type(role)) for p, a in before.items()
        }
        assert run(given, after).assignments == after
