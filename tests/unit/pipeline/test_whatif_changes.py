"""What-if credits each change with what it alone gives: racks with the group's own plan, places with the best."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from samerack.common.records import LEADING, GroupState, MemberState, TopicState, encode
from samerack.pipeline.problem import can_be_led, crossing, group_of, led_plan
from samerack.pipeline.report.chapters import ShareFacts
from samerack.pipeline.whatif_group import (
    ELECT,
    LEAD,
    MOVE,
    NEAR,
    NEAR_LEAD,
    PRESENT,
    Questions,
    ScenarioOutcome,
    outcomes,
)
from samerack.settings.protocols import UNSOUND_PROTOCOLS
from tests import effort

RACKS = ("a", "b", "c")
_GROUPS = effort.of(200, minimum=40)


def group(racks: str, leaders: str, rates: list[float], *, sends: bool = False, **changes: Any) -> GroupState:
    """A group of one topic: a letter for the rack of each member, and of the only replica of each partition."""
    count = len(racks)
    return GroupState(
        id="1",
        agent="a",
        cluster="c",
        group="orders",
        at=1,
        kind="classic",
        state="Stable",
        assignor="range",
        role="",
        rack_aware_fetch=True,
        racks=RACKS,
        broker_racks=len(RACKS),
        members=tuple(
            MemberState(
                id=f"m{number}",
                client_id="c",
                rack=RACKS.index(rack),
                fetches_with_rack=sends,
                topics=(0,),
                tells_rack=sends,
            )
            for number, rack in enumerate(racks)
        ),
        topics=(
            TopicState(
                name="t",
                replicas=tuple((RACKS.index(rack),) for rack in leaders),
                owner=tuple(sorted(number % count for number in range(len(leaders)))),
                bytes_per_second=tuple(rates),
            ),
        ),
    ).model_copy(update=changes)


def found(state: GroupState, questions: Questions | None = None) -> dict[str, ScenarioOutcome]:
    """The outcomes by scenario."""
    return {outcome.scenario: outcome for outcome in outcomes(state, questions or Questions())}


FAR = group("abc", "bcaabc", [1.0, 1.0, 1.0, 1.0, 1.0, 10.0])
"""Without racks `range` gives each member two partitions in a row: all but one are far."""


def test_what_range_gives_with_racks_is_not_credited_to_the_agent() -> None:
    """With racks `range` itself reads everything near (KIP-881), and leading adds nothing."""
    seen = found(FAR)
    assert seen[PRESENT].reads.crossing == 5
    assert (seen[NEAR].reads.crossing, seen[NEAR].moves) == (0, 5)
    assert (seen[NEAR_LEAD].before, seen[NEAR_LEAD].reads.crossing) == (0, 0)


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_assignors_know_racks_too(assignor: str) -> None:
    """Members that restart to send their racks get a new plan."""
    assert found(FAR.model_copy(update={"assignor": assignor}))[NEAR].reads.crossing == 0


@pytest.mark.parametrize(
    "changes",
    [{"assignor": "roundrobin"}, {"assignor": "homegrown"}, {"kind": "consumer"}, {"kind": "consumer", "assignor": ""}],
)
def test_where_no_racks_are_regarded_the_assignment_stays(changes: dict[str, str]) -> None:
    """Neither `roundrobin` nor an unknown assignor nor the brokers' own plan with racks."""
    seen = found(FAR.model_copy(update=changes))
    assert (seen[NEAR].reads.crossing, seen[NEAR].moves) == (5, 0)


def test_racks_that_all_members_send_already_change_no_assignment() -> None:
    """If only the brokers have to serve from the reader's rack, nobody restarts."""
    seen = found(group("abc", "bcaabc", [1.0] * 6, sends=True, rack_aware_fetch=False, assignor="sticky"))
    assert seen[NEAR].moves == 0


def test_what_the_agents_next_plan_gives_is_no_gain_of_a_change() -> None:
    """Found: `elect` was credited with 140 of which the next plan gives 120, as the one in force was of old rates."""
    old = group("abc", "bccaaa", [1.0] * 6, role=LEADING)
    seen = found(old)
    fresh = crossing(group_of(old), led_plan(group_of(old))).crossing
    assert seen[PRESENT].reads.crossing > fresh > 0
    changes = {MOVE, ELECT, NEAR} & seen.keys()
    assert changes
    assert {seen[change].before for change in changes} == {fresh}
    assert not {LEAD, NEAR_LEAD} & seen.keys()
    assert not {MOVE, ELECT, NEAR} & found(FAR.model_copy(update={"role": LEADING})).keys()  # all is near then


def test_even_leaders_may_cost_a_group_that_is_near_now() -> None:
    """All its members are where all leaders are; another reader of the topic may gain what this one loses."""
    state = group("aa", "aaaaaa", [1.0] * 6, rack_aware_fetch=False, role=LEADING)
    (topic,) = state.topics
    spread = topic.model_copy(update={"replicas": ((0, 1, 2),) * 6})
    seen = found(state.model_copy(update={"topics": (spread,)}))
    assert (seen[ELECT].before, seen[ELECT].reads.crossing) == (0, 4)


def test_members_move_to_the_best_even_places() -> None:
    """Four members in three racks: the second one of a rack belongs where most bytes are, not in the first by name."""
    state = group("aaab", "ccccabcc", [9.0, 9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0])
    assert (found(state)[MOVE].placed, found(state)[MOVE].reads.crossing) == ("a 1, b 1, c 2", best_even(state))


def best_even(state: GroupState) -> float:
    """What the best plan of the best even placement reads across racks, by trying all."""
    one = group_of(state)
    count, racks = len(one.problem.member_rack), len(state.racks)
    least, most = count // racks, -(-count // racks)
    return min(
        crossing(placed, led_plan(placed)).crossing
        for row in product(range(racks), repeat=count)
        if all(least <= row.count(rack) <= most for rack in range(racks))
        for placed in [replace(one, problem=replace(one.problem, member_rack=np.array(row, np.int32)))]
    )


def test_no_even_placement_is_better() -> None:
    """Members that are alike are placed as well as by trying all placements, at rates that are as good as weights."""
    for seed in range(_GROUPS):
        random = Random(seed)  # noqa: S311 - groups, not secrets
        partitions = random.randint(1, 8)
        state = group(
            "".join(random.choices("abc", k=random.randint(1, 5))),
            "".join(random.choices("abc", weights=(1, 2, 4), k=partitions)),
            [2.0 ** random.randint(0, 10) for _ in range(partitions)],
            sends=random.random() < 0.5,
            assignor=random.choice(["range", "sticky"]),
        )
        seen = found(state)
        if MOVE in seen:
            assert seen[MOVE].reads.crossing == pytest.approx(best_even(state)), seed


@pytest.mark.parametrize(
    ("changes", "led"),
    [
        ({}, True),
        ({"assignor": "homegrown"}, False),
        ({"assignor": "homegrown", "refusal": ""}, True),
        ({"assignor": "roundrobin", "refusal": "its members use roundrobin with subscription v0"}, False),
        ({"assignor": "RoundRobinAssigner"}, True),
        ({"kind": "consumer", "assignor": "uniform"}, True),
        ({"kind": "other"}, False),
    ],
)
def test_lead_is_promised_where_the_agent_would_join(changes: dict[str, str], led: bool) -> None:  # noqa: FBT001 - a case
    """By what the agent said in the state, else by its rule for protocol names; kafkajs's groups are led from birth."""
    state = FAR.model_copy(update=changes)
    seen = found(state)
    assert can_be_led(state) is led
    assert (LEAD in seen, NEAR_LEAD in seen) == (led, led)
    share = ShareFacts().row_of(encode(state).decode())
    assert (share["possible"] < share["present"]) is led


def test_a_group_that_is_led_can_be_led() -> None:
    """Also one that the agent could not join now."""
    for assignor in UNSOUND_PROTOCOLS | {"homegrown"}:
        assert can_be_led(FAR.model_copy(update={"assignor": assignor, "role": LEADING}))
