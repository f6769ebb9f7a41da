"""What-if of Kafka Streams groups: whole tasks, by a strategy that the application can set, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from samerack.common.records import GroupState, MemberState, TopicState
from samerack.pipeline.problem import StateError, group_of
from samerack.pipeline.whatif_group import (
    MOVE,
    NEAR,
    OPTIMAL,
    OWN,
    PRESENT,
    RANGE,
    STRATEGY,
    Questions,
    ScenarioOutcome,
    outcomes,
)


def state(*, kind: str = "streams-classic", tasks: bool = True, sends: bool = True, **changes: Any) -> GroupState:
    """Two clients in two racks; each task reads two topics, whose replicas are all in the rack of the other client."""
    far = ((1,), (1,), (0,), (0,))
    made = GroupState(
        id="1",
        agent="a",
        cluster="c",
        group="shipments",
        at=1,
        kind=kind,
        state="Stable",
        assignor="stream",
        role="",
        rack_aware_fetch=True,
        racks=("a", "b"),
        broker_racks=2,
        members=tuple(
            MemberState(
                id=f"m{number}",
                client_id="c",
                rack=number,
                fetches_with_rack=sends,
                topics=(0, 1),
                tells_rack=sends,
                client=number if tasks else None,
            )
            for number in range(2)
        ),
        topics=tuple(
            TopicState(
                name=name,
                replicas=far,
                owner=(0, 0, 1, 1),
                bytes_per_second=(10.0, 20.0, 30.0, 40.0),
                tasks=(0, 1, 2, 3) if tasks else None,
            )
            for name in ("t", "u")
        ),
    )
    return made.model_copy(update=changes)


def found(one: GroupState) -> dict[str, ScenarioOutcome]:
    """The outcomes by scenario."""
    return {outcome.scenario: outcome for outcome in outcomes(one, Questions())}


def test_a_strategy_is_a_change_of_its_own() -> None:
    """All of the 200 bytes cross racks now, none under `min_traffic`; consumers' assignors are not compared."""
    seen = found(state())
    assert (seen[PRESENT].reads.crossing, seen[OPTIMAL].reads.crossing) == (200, 0)
    assert (seen[STRATEGY].reference, seen[STRATEGY].reads.crossing, seen[STRATEGY].moves) == (PRESENT, 0, 8)
    assert not {OWN, RANGE} & seen.keys()


def test_a_strategy_needs_the_rack_of_every_client() -> None:
    """Where members send no rack, the strategy is measured against a group in which they do."""
    seen = found(state(sends=False))
    assert (seen[STRATEGY].reference, seen[STRATEGY].before, seen[STRATEGY].reads.crossing) == (NEAR, 200, 0)


def test_other_racks_do_not_bring_the_strategy() -> None:
    """Found: `move` promised 140 bytes, 120 of them by `min_traffic`, which needs the rack of every client."""
    members = tuple(one.model_copy(update={"rack": 0}) for one in state(sends=False).members)
    seen = found(state(sends=False, members=members))
    assert (seen[MOVE].before, seen[MOVE].reads.crossing, seen[MOVE].moves) == (60, 200, 0)


def test_tasks_stay_whole() -> None:
    """Where each task's topics are in different racks, half crosses whoever runs it."""
    split = state()
    near = split.topics[1].model_copy(update={"replicas": ((0,), (0,), (1,), (1,))})
    seen = found(split.model_copy(update={"topics": (split.topics[0], near)}))
    assert seen[OPTIMAL].reads.share == pytest.approx(1 / 2)


@pytest.mark.parametrize("kind", ["streams", "other"])
def test_no_strategy_where_it_has_no_effect(kind: str) -> None:
    """KIP-1071 groups ignore the strategy: they have an optimum to compare with, and no such change."""
    assert STRATEGY not in found(state(kind=kind))


def test_states_of_older_agents_have_no_optimum() -> None:
    """Without tasks it is not known which partitions stay together: no plan is invented."""
    seen = found(state(tasks=False))
    assert OPTIMAL not in seen
    assert STRATEGY not in seen


def test_tasks_of_wrong_number_are_refused() -> None:
    """A topic has a task for each partition."""
    wrong = state()
    short = wrong.topics[0].model_copy(update={"tasks": (0,)})
    with pytest.raises(StateError, match=r"topic 't': has 4 owners and 1 tasks"):
        group_of(wrong.model_copy(update={"topics": (short, wrong.topics[1])}))
