"""HighAvailabilityTaskAssignor: KIP-925's eight steps (section 3), KIP-441's warm-ups, KIP-708's tags, and racks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from samerack.assignors.problem import AssignmentError as InvalidError
from samerack.assignors.streams.application import (
    ApplicationState,
    KafkaStreamsState,
    ProcessId,
    SharedLags,
    TaskAssignmentError,
    TaskId,
)
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.ha import HighAvailabilityTaskAssignor, LagTable, high_availability
from samerack.assignors.streams.optimize import ObstacleKind
from samerack.assignors.streams.plugin import Outcome, Request
from tests.unit.assignors.streams.applications import (
    EVERYTHING,
    actives,
    after,
    application,
    copies,
    process,
    standbys,
    tasks,
)

NOBODY_LAGS = 2**63 - 1

both_modes = pytest.mark.parametrize("compatible", [False, True])


def run(state: ApplicationState, **options: Any) -> Outcome:
    """The assignor's outcome."""
    return high_availability(Request(state=state, **options))


def target(state: ApplicationState, **options: Any) -> Outcome:
    """The outcome if every client had caught up."""
    configs = {name: getattr(state.assignment_configs, name) for name in state.assignment_configs.__slots__}
    easy = type(state.assignment_configs)(**(configs | {"acceptable_recovery_lag": NOBODY_LAGS}))
    return run(ApplicationState(states=state.states, all_tasks=state.all_tasks, assignment_configs=easy), **options)


def test_kip_925_3_step_1_tasks_go_round_in_order() -> None:
    """Stateful tasks go to clients in turn, both in ascending order."""
    state = application(tasks("0_0 0_1 0_2 1_0 1_1"), {}, {}, {})
    assert actives(target(state).assignment) == ["0_0 1_0", "0_1 1_1", "0_2"]


def test_kip_925_3_step_2_load_is_tasks_by_thread() -> None:
    """Clients with one, two and three threads get one, two and three of six tasks (4.B.II, "Suppose there are 3")."""
    state = application(tasks("1_0 1_1 1_2 2_0 2_1 2_2"), {"threads": 1}, {"threads": 2}, {"threads": 3})
    assert [len(line.split()) for line in actives(target(state).assignment)] == [1, 2, 3]


def test_kip_925_3_step_3_standbys_go_where_load_is_least() -> None:
    """Each task gets its standbys on other clients, and loads stay even."""
    state = application(tasks("0_0 0_1 0_2"), {}, {}, {}, num_standby_replicas=1)
    answer = target(state).assignment
    assert copies(answer, TaskType.STANDBY) == dict.fromkeys(state.all_tasks, 1)
    assert [len(assignment.tasks) for assignment in answer.assignment] == [2, 2, 2]


def test_kip_925_3_step_4_standbys_are_balanced_by_thread() -> None:
    """A client with three threads keeps more copies than one with a single thread."""
    state = application(
        tasks("0_0 0_1 0_2 0_3"), {"threads": 1}, {"threads": 1}, {"threads": 3}, num_standby_replicas=1
    )
    loads = [len(assignment.tasks) for assignment in target(state).assignment.assignment]
    assert loads == [2, 2, 4]


def test_kip_925_3_step_5_a_task_runs_where_it_is_caught_up() -> None:
    """The owner keeps running tasks that are meant for another client, which warms up as many as are allowed."""
    state = application(tasks("0_0 0_1 0_2 0_3"), {"active": "0_0 0_1 0_2 0_3"}, {}, max_warmup_replicas=1)
    outcome = run(state, now_ms=1_000)
    assert actives(outcome.assignment) == ["0_0 0_1 0_2 0_3", ""]
    assert standbys(outcome.assignment) == ["", "0_1"]
    assert outcome.probing_rebalance
    deadlines = [assignment.followup_rebalance_deadline for assignment in outcome.assignment.assignment]
    assert deadlines == [1_000 + state.assignment_configs.probing_rebalance_interval_ms, None]


def test_kip_925_3_step_5_a_caught_up_standby_changes_places() -> None:
    """A caught-up standby becomes active, and the client that is to run the task later becomes its standby."""
    state = application(
        tasks("0_0 0_1"),
        {"active": "0_1", "lags": {"0_0": EVERYTHING}},
        {"lags": {"0_0": 0, "0_1": 50_000}},
        num_standby_replicas=1,
    )
    outcome = run(state)
    assert actives(outcome.assignment) == ["0_1", "0_0"]
    assert standbys(outcome.assignment) == ["0_0", "0_1"]
    assert outcome.probing_rebalance


def test_kip_925_3_step_6_standbys_stay_where_they_have_caught_up() -> None:
    """A caught-up standby stays on its client while the client that is to have it warms up."""
    infos = tasks("0_0 0_1 0_2")
    clients = [{"active": "0_0"}, {"active": "0_1"}, {"active": "0_2"}]
    first = target(application(infos, *clients, num_standby_replicas=1))
    places = standbys(first.assignment)
    index = next(number for number, line in enumerate(places) if line == "0_0")
    other = 3 - index
    clients[other]["lags"] = {"0_0": 0}  # type: ignore[assignment]  # a client has keys of several kinds
    outcome = run(application(infos, *clients, num_standby_replicas=1, acceptable_recovery_lag=10))
    assert "0_0" in standbys(outcome.assignment)[other]
    assert outcome.probing_rebalance


def test_kip_925_3_step_7_stateless_tasks_go_where_few_are_active() -> None:
    """Stateless tasks even out actives by thread and never have standbys."""
    state = application(tasks("0_0", "1_0 1_1 1_2"), {}, {}, num_standby_replicas=1)
    answer = target(state).assignment
    assert actives(answer) == ["0_0 1_1", "1_0 1_2"]
    assert sum(copies(answer, TaskType.STANDBY).values()) == 1


def test_kip_925_3_step_8_nothing_to_wait_for_no_probing() -> None:
    """If every task is on its target client, there is no follow-up."""
    state = application(tasks("0_0 0_1"), {"active": "0_0"}, {"active": "0_1"})
    outcome = run(state)
    assert not outcome.probing_rebalance
    assert [assignment.followup_rebalance_deadline for assignment in outcome.assignment.assignment] == [None, None]


@pytest.mark.parametrize(("lag", "probing"), [(100, False), (101, True)])
def test_kip_441_an_acceptable_lag_counts_as_caught_up(lag: int, *, probing: bool) -> None:
    """A client takes over at once if its lag is at most the acceptable lag."""
    state = application(tasks("0_0"), {"lags": {"0_0": lag}}, {"active": "0_0"}, acceptable_recovery_lag=100)
    outcome = run(state)
    assert outcome.probing_rebalance is probing
    assert actives(outcome.assignment) == (["", "0_0"] if probing else ["0_0", ""])


def test_kip_441_nobody_closer_nobody_waits() -> None:
    """If no client is closer, the target takes effect at once, however large the lags are."""
    outcome = run(application(tasks("0_0 0_1"), {}, {}))
    assert actives(outcome.assignment) == ["0_0", "0_1"]
    assert not outcome.probing_rebalance


def test_kip_441_the_closest_runs_where_nobody_is_caught_up() -> None:
    """Without any caught-up client the one with the least lag runs the task."""
    state = application(tasks("0_0"), {"lags": {"0_0": 90_000}}, {"lags": {"0_0": 60_000}}, {"lags": {"0_0": 70_000}})
    outcome = run(state)
    assert actives(outcome.assignment) == ["", "0_0", ""]
    assert standbys(outcome.assignment) == ["0_0", "", ""]


@both_modes
def test_kip_925_4_constraint_2_racks_set_the_target_and_lags_the_way(*, compatible: bool) -> None:
    """A stateful active with another target rack warms up there, and stays with its owner until then."""
    state = application(
        tasks("0_0 0_1", source=["b", "a"]),
        {"rack": "a", "active": "0_0"},
        {"rack": "b", "active": "0_1"},
        rack_aware_assignment_strategy="min_traffic",
    )
    outcome = run(state, compatible=compatible)
    assert actives(outcome.assignment) == ["0_0", "0_1"]
    assert standbys(outcome.assignment) == ["0_1", "0_0"]
    assert outcome.probing_rebalance
    second = run(after(state, outcome.assignment), compatible=compatible)
    assert actives(second.assignment) == ["0_1", "0_0"]
    assert standbys(second.assignment) == ["", ""]
    assert not second.probing_rebalance


@both_modes
def test_kip_925_4_e_stateless_tasks_follow_racks_at_once(*, compatible: bool) -> None:
    """Stateless tasks move to their racks without a warm-up, whatever the configured cost of a move."""
    state = application(
        tasks(stateless="0_0 0_1", source=["b", "a"]),
        {"rack": "a"},
        {"rack": "b"},
        rack_aware_assignment_strategy="min_traffic",
        rack_aware_non_overlap_cost=1_000,
    )
    outcome = run(state, compatible=compatible)
    assert actives(outcome.assignment) == ["0_1", "0_0"]
    assert not outcome.probing_rebalance


@both_modes
@pytest.mark.parametrize(
    ("costs", "moved"),
    [
        ({}, True),
        ({"rack_aware_traffic_cost": 1, "rack_aware_non_overlap_cost": 10}, False),
        ({"rack_aware_non_overlap_cost": 100}, False),
        ({"rack_aware_traffic_cost": 0}, False),
    ],
)
def test_kip_925_4_b_iii_prices_are_ten_and_one_unless_configured(
    costs: dict[str, int], *, moved: bool, compatible: bool
) -> None:
    """By default the traffic of one partition outweighs a move; configured costs can reverse this."""
    state = application(
        tasks("0_0 0_1", source=["b", "a"]),
        {"rack": "a"},
        {"rack": "b"},
        rack_aware_assignment_strategy="min_traffic",
        **costs,
    )
    assert actives(target(state, compatible=compatible).assignment) == (["0_1", "0_0"] if moved else ["0_0", "0_1"])


@pytest.mark.parametrize(
    ("sources", "racks", "standby_count", "changelog", "reason"),
    [
        (["b", "a"], ("a", None), 0, "a", ObstacleKind.CLIENT_WITHOUT_RACK),
        (["b", ""], ("a", "b"), 0, "a", ObstacleKind.PARTITION_WITHOUT_RACK),
        (["b", "a"], ("a", "b"), 1, "", ObstacleKind.PARTITION_WITHOUT_RACK),
        (["b", "a"], ("a", "b"), 0, "", None),
        (["b", "a"], ("c", "c"), 0, "a", ObstacleKind.ALL_PLACES_COST_THE_SAME),
    ],
)
def test_kip_925_6_when_racks_have_no_say(
    sources: list[str], racks: tuple[str | None, ...], standby_count: int, changelog: str, reason: ObstacleKind | None
) -> None:
    """A client, source or (with standbys) changelog without a rack, or no gain, disables racks; the answer says why."""
    state = application(
        tasks("0_0 0_1", source=sources, changelog=changelog),
        *({"rack": rack} for rack in racks),
        rack_aware_assignment_strategy="min_traffic",
        num_standby_replicas=standby_count,
    )
    outcome = target(state)
    assert (outcome.obstacle and outcome.obstacle.reason) == reason
    assert actives(outcome.assignment) == (["0_1", "0_0"] if reason is None else ["0_0", "0_1"])


@both_modes
def test_kip_925_4_d_tags_win_over_racks_with_a_warning(*, compatible: bool) -> None:
    """Racks would put the standby into its active's zone; tags prevent it, and the answer has a warning."""
    clients: list[dict[str, Any]] = [
        {"rack": rack, "tags": {"zone": zone}} for rack, zone in (("a", "x"), ("b", "x"), ("c", "y"))
    ]
    state = application(
        tasks("0_0", source="a", changelog="b"),
        *clients,
        num_standby_replicas=1,
        rack_aware_assignment_strategy="min_traffic",
        rack_aware_assignment_tags=("zone",),
    )
    outcome = target(state, compatible=compatible)
    assert actives(outcome.assignment) == ["0_0", "", ""]
    assert standbys(outcome.assignment) == ["", "", "0_0"]
    assert outcome.warnings


def test_kip_924_lags_that_could_not_be_computed_mean_not_now() -> None:
    """Without lags the assignor raises the error that keeps all tasks and causes a rebalance at once."""
    state = application(tasks("0_0"), {})
    blind = ApplicationState(states=state.kafka_streams_states(compute_task_lags=False), all_tasks=state.all_tasks)
    with pytest.raises(TaskAssignmentError, match="lags"):
        run(blind)


def test_kip_924_the_plug_in_counts_deadlines_from_its_clock() -> None:
    """The plug-in returns what the function returns at its clock's time."""
    state = application(tasks("0_0 0_1"), {"active": "0_0 0_1"}, {})
    assignor = HighAvailabilityTaskAssignor(clock_ms=lambda: 5_000)
    assert assignor.assign(state) == run(state, now_ms=5_000).assignment


def test_no_tasks_are_no_problem() -> None:
    """Without tasks every client gets an empty assignment."""
    outcome = run(application({}, {}, {}))
    assert actives(outcome.assignment) == ["", ""]
    assert [assignment.process_id for assignment in outcome.assignment.assignment] == [process(1), process(2)]


LAGGING = [TaskId(subtopology=0, partition=number) for number in range(2)]


def test_a_lag_that_is_missing_is_named() -> None:
    """A client without a lag of a task is refused, whether or not others share lags."""
    client_id = ProcessId(uuid=UUID(int=1))
    for lags in ({LAGGING[0]: 1}, SharedLags(own={}, common={LAGGING[0]: 1})):
        client = KafkaStreamsState(process_id=client_id, lags=lags)
        with pytest.raises(InvalidError, match=r"client .*1 has no lag for task 0_1"):
            LagTable({client_id: client}, LAGGING, 0)


def test_a_lag_beyond_64_bits_is_refused() -> None:
    """Offsets of Kafka have 64 bits; a lag that has more is an error of its own."""
    client_id = ProcessId(uuid=UUID(int=1))
    for lags in ({LAGGING[0]: 2**63}, SharedLags(own={}, common={LAGGING[0]: 2**63})):
        client = KafkaStreamsState(process_id=client_id, lags=lags)
        with pytest.raises(InvalidError, match="64 bits"):
            LagTable({client_id: client}, LAGGING[:1], 0)
