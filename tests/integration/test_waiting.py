"""The agent is in a group only while consumers are: it waits outside, leads from the start, and leaves after them."""

from __future__ import annotations

import pytest

from lab.sandbox.admin import wait_until
from tests.integration.scenario import INTERLEAVED, Scenario


@pytest.mark.promise(
    "Consumers that start in a new group, also one that only a pattern names, have their first assignment, "
    "generation 1, from the agent."
)
def test_a_new_group_of_a_pattern_is_led_from_the_first_generation(scenario: Scenario, other: Scenario) -> None:
    """A birth lasts three seconds; where a busy machine gave the agent no turn in them, the next new group counts."""
    groups = [f"{scenario.group}*", f"{other.group}*"]
    agent = scenario.agent(groups=groups, election__group=f"samerack-{scenario.group}")
    agent.wait(lambda: bool(agent.events("pattern-matches-no-group")), "all groups are listed")
    agent.wait(lambda: bool(agent.events("elected")), "its first election, which itself takes a birth, is over")
    for one in (scenario, other):
        one.lay_out(INTERLEAVED)
        one.join_each("java", "confluent", "kafka-python")
        one.wait_settled()
        agent.wait_inside(one.group)
        if agent.role(one.group) == "leading":
            break
    one.wait_settled(cross_rack=0)
    assert agent.events("plan-sent", group=one.group)[0]["generation"] == 1
    assert agent.events("role", group=one.group, now="following") == []
    one.finish()


@pytest.mark.promise("The agent leaves the group with its last consumer, and leads the next consumers.")
def test_the_agent_leaves_with_the_last_consumer(scenario: Scenario) -> None:
    """After the last consumer has left, the group is Empty, as without an agent; the agent leads the next ones too."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    for _ in range(2):
        scenario.join_each("confluent", "java")
        scenario.wait_led(agent, cross_rack=2)
        scenario.leave_all()
        wait_until(lambda: scenario.describe().state.name == "EMPTY", "the group is empty")
        agent.wait_role("waiting")
