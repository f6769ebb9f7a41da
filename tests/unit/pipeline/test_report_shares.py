"""The shares of states in a row are those of each state by itself, and the possible share is that of the led plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.common.records import GroupState, encode
from samerack.pipeline.problem import crossing, group_of, led_plan
from samerack.pipeline.report.chapters import ShareFacts
from tests.records import STATE
from tests.unit.pipeline.fleets import states

GROUPS = st.one_of(states(), states(gaps=True))


def with_rates(state: GroupState, factor: float) -> GroupState:
    """The state with other rates, every second partition's more than the others'."""
    return state.model_copy(
        update={
            "topics": tuple(
                topic.model_copy(
                    update={
                        "bytes_per_second": tuple(
                            rate * factor + 1000 * (number % 2) for number, rate in enumerate(topic.bytes_per_second)
                        )
                    }
                )
                for topic in state.topics
            )
        }
    )


@given(GROUPS, st.floats(0.1, 10.0))
def test_a_state_has_the_same_shares_after_another_one(state: GroupState, factor: float) -> None:
    """What is remembered of a state changes no figure of the next one."""
    row = ShareFacts()
    for one in (state, with_rates(state, factor), state):
        assert row.row_of(encode(one).decode()) == ShareFacts().row_of(encode(one).decode())


@given(GROUPS, st.floats(0.1, 10.0))
def test_the_possible_share_is_that_of_the_plan_that_an_agent_would_lead(state: GroupState, factor: float) -> None:
    """The least of the plan in force and the led plan, whatever is remembered of the state before."""
    row = ShareFacts()
    for one in (state, with_rates(state, factor)):
        found = row.row_of(encode(one).decode())
        assert "error" not in found
        group = group_of(one)
        now = crossing(group, group.problem.owner)
        if now.known and now.crossing and one.kind in {"classic", "consumer"}:
            led = crossing(group, led_plan(group))
            assert found["possible"] == pytest.approx(min(now.share, led.share))


def test_a_wrong_rate_is_found_in_a_state_after_a_good_one() -> None:
    """The rates of every state are checked."""
    topic = STATE.topics[0].model_copy(update={"bytes_per_second": (1.0,) * (len(STATE.topics[0].owner) + 1)})
    wrong = STATE.model_copy(update={"topics": (topic, *STATE.topics[1:])})
    row = ShareFacts()
    assert "error" not in row.row_of(encode(STATE).decode())
    assert "rates; expected one of each" in row.row_of(encode(wrong).decode())["error"]
    assert "error" not in row.row_of(encode(STATE).decode())
