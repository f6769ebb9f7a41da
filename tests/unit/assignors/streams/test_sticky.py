"""StickyTaskAssignor, its predecessor and the fall-back: what stays, what moves at which costs, and the follow-up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from samerack.assignors.streams.application import ApplicationState, TaskId
from samerack.assignors.streams.optimize import ObstacleKind
from samerack.assignors.streams.plugin import Outcome, Request
from samerack.assignors.streams.registry import ASSIGNORS
from tests.unit.assignors.streams.applications import actives, after, application, tasks

both_modes = pytest.mark.parametrize("compatible", [False, True])
each_sticky = pytest.mark.parametrize("name", ["sticky", "legacy-sticky"])


def run(state: ApplicationState, name: str = "sticky", **options: Any) -> Outcome:
    """The assignor's outcome."""
    return ASSIGNORS[name](Request(state=state, **options))


@both_modes
@each_sticky
def test_a_client_that_joins_takes_its_share_only(name: str, *, compatible: bool) -> None:
    """Of six tasks on two clients a third client gets two, and four stay."""
    state = application(tasks("0_0 0_1 0_2 0_3 0_4 0_5"), {"active": "0_0 0_1 0_2"}, {"active": "0_3 0_4 0_5"}, {})
    lines = [set(line.split()) for line in actives(run(state, name, compatible=compatible).assignment)]
    assert [len(line) for line in lines] == [2, 2, 2]
    assert lines[0] < {"0_0", "0_1", "0_2"}
    assert lines[1] < {"0_3", "0_4", "0_5"}


@both_modes
@each_sticky
def test_tasks_of_a_client_that_left_go_to_their_standbys(name: str, *, compatible: bool) -> None:
    """A task whose owner left runs on the client with its copy, if that client has capacity."""
    state = application(
        tasks("0_0 0_1 0_2 0_3"),
        {"threads": 2, "active": "0_0", "standby": "0_3"},
        {"threads": 2, "active": "0_1", "standby": "0_2"},
    )
    assert actives(run(state, name, compatible=compatible).assignment) == ["0_0 0_3", "0_1 0_2"]


def crossed(**configs: Any) -> ApplicationState:
    """Two tasks, each of which reads from the other client's rack."""
    return application(
        tasks("0_0 0_1", source=["b", "a"]),
        {"rack": "a", "active": "0_0"},
        {"rack": "b", "active": "0_1"},
        rack_aware_assignment_strategy="min_traffic",
        **configs,
    )


@each_sticky
@pytest.mark.parametrize(
    ("costs", "moved"),
    [
        ({}, False),
        ({"rack_aware_traffic_cost": 11}, True),
        ({"rack_aware_non_overlap_cost": 0}, True),
        ({"rack_aware_traffic_cost": 10, "rack_aware_non_overlap_cost": 1}, True),
    ],
)
def test_kip_925_4_b_iii_a_sticky_task_moves_only_for_a_price(name: str, costs: dict[str, int], *, moved: bool) -> None:
    """By default a move costs ten and a partition read across racks one; a stateful active moves at once."""
    answer = run(crossed(**costs), name).assignment
    assert actives(answer) == (["0_1", "0_0"] if moved else ["0_0", "0_1"])


def test_one_configured_price_is_enough() -> None:
    """The other cost has a default; Kafka's public assignor then optimises nothing, and so does `compatible`."""
    state = crossed(rack_aware_traffic_cost=11)
    kafka = run(state, compatible=True)
    assert actives(kafka.assignment) == ["0_0", "0_1"]
    assert kafka.obstacle is not None
    assert kafka.obstacle.reason is ObstacleKind.NO_NON_OVERLAP_COST
    assert run(state).obstacle is None


def test_changelogs_do_not_weigh_on_actives() -> None:
    """Tasks that read in their rack stay, wherever their changelogs are; Kafka's public assignor swaps them."""
    infos = tasks("0_0", source=["ab"], changelog="b") | tasks("0_1", source=["ab"], changelog="a")
    state = application(
        infos,
        {"rack": "a", "active": "0_0"},
        {"rack": "b", "active": "0_1"},
        rack_aware_assignment_strategy="min_traffic",
        rack_aware_traffic_cost=10,
        rack_aware_non_overlap_cost=1,
    )
    assert actives(run(state).assignment) == ["0_0", "0_1"]
    assert actives(run(state, compatible=True).assignment) == ["0_1", "0_0"]
    assert actives(run(state, "legacy-sticky", compatible=True).assignment) == ["0_0", "0_1"]


@both_modes
@pytest.mark.parametrize("name", ["sticky", "fallback-prior"])
def test_actives_that_must_stay_stay_and_a_follow_up_comes_at_once(name: str, *, compatible: bool) -> None:
    """All tasks stay on the one client that had them, racks do not count, and one client requests a follow-up."""
    state = application(
        tasks("0_0 0_1 0_2", source=["b", "b", "b"]),
        {"rack": "a", "active": "0_0 0_1 0_2"},
        {"rack": "b"},
        rack_aware_assignment_strategy="min_traffic",
        rack_aware_traffic_cost=100,
        rack_aware_non_overlap_cost=0,
    )
    outcome = run(state, name, must_preserve_active=True, compatible=compatible, now_ms=7)
    assert actives(outcome.assignment) == ["0_0 0_1 0_2", ""]
    deadlines = [assignment.followup_rebalance_deadline for assignment in outcome.assignment.assignment]
    assert deadlines == [7, None]
    assert outcome.probing_rebalance is (name == "fallback-prior")


def test_tasks_that_are_gone_are_forgotten() -> None:
    """Clients may report tasks that no longer exist; these do not change the assignment of the others."""
    state = application(tasks("0_0 0_1"), {"active": "9_9 0_1", "standby": "8_8"}, {"active": "0_0"})
    assert actives(run(state).assignment) == ["0_1", "0_0"]


def test_kip_924_lags_are_not_needed() -> None:
    """The sticky assignors and the fall-back decide without lags."""
    state = application(tasks("0_0 0_1"), {"active": "0_0"}, {"active": "0_1"})
    blind = ApplicationState(states=state.kafka_streams_states(compute_task_lags=False), all_tasks=state.all_tasks)
    for name in ("sticky", "legacy-sticky", "fallback-prior"):
        assert actives(run(blind, name).assignment) == ["0_0", "0_1"]


@st.composite
def _zoned(draw: st.DrawFn) -> ApplicationState:
    """Clients in zones with matching tags; each task had its copies in two zones before some clients left."""
    zones = draw(st.sampled_from(["ab", "abc"]))
    before = [zone for zone in zones for _ in range(draw(st.integers(1, 3)))]
    names = [f"0_{number}" for number in range(draw(st.integers(1, 12)))]
    had: list[dict[str, list[str]]] = [{"active": [], "standby": []} for _ in before]
    for name in names:
        owner = draw(st.integers(0, len(before) - 1))
        had[owner]["active"].append(name)
        others = [number for number, zone in enumerate(before) if zone != before[owner]]
        had[draw(st.sampled_from(others))]["standby"].append(name)
    stay = draw(st.lists(st.booleans(), min_size=len(before), max_size=len(before)))
    clients = [(zone, held) for zone, held, stays in zip(before, had, stay, strict=True) if stays]
    clients += [(zone, {"active": [], "standby": []}) for zone in zones for _ in range(draw(st.integers(0, 1)))]
    assume(len({zone for zone, _ in clients}) > 1)
    return application(
        tasks(" ".join(names), source=[draw(st.sampled_from(["a", "b", "ab"])) for _ in names], changelog="ab"),
        *(
            {
                "rack": zone,
                "tags": {"zone": zone, "other": str(number)},
                "threads": draw(st.integers(1, 2)),
                **{kind: " ".join(held[kind]) for kind in held},
                "lags": dict.fromkeys(held["standby"], 0),
            }
            for number, (zone, held) in enumerate(clients)
        ),
        num_standby_replicas=1,
        rack_aware_assignment_tags=("zone",),
        rack_aware_assignment_strategy=draw(st.sampled_from(["none", "min_traffic", "balance_subtopology"])),
        rack_aware_traffic_cost=draw(st.sampled_from([1, 10, 100])),
        rack_aware_non_overlap_cost=draw(st.sampled_from([1, 10])),
    )


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(state=_zoned())
def test_tags_hold(name: str, state: ApplicationState) -> None:
    """No task has all its copies in one zone, even if that would save traffic; `ha` achieves this after its probing."""
    outcome = run(state, name)
    for _ in range(20 if name == "ha" else 0):
        next_state = after(state, outcome.assignment)
        if next_state == state:
            break  # all that follows would be the same
        state, outcome = next_state, run(next_state, name)
    answer = outcome.assignment
    zones: dict[TaskId, set[str]] = {task: set() for task in state.all_tasks}
    for assignment in answer.assignment:
        for task in assignment.tasks:
            zones[task].add(state.states[assignment.process_id].client_tags["zone"])
    assert {str(task) for task, found in zones.items() if len(found) < 2} == set()
