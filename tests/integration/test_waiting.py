"""The agent is in a group only while consumers are: it waits outside, leads from the start, and leaves after them."""

from __future__ import annotations

import pytest

from lab.sandbox.admin import wait_until
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario


@pytest.mark.parametrize(
    ("assignor", "clients", "by_pattern"),
    [
        pytest.param(
            "range",
            ("java", "confluent", "kafka-python"),
            True,
            marks=pytest.mark.promise(
                "Consumers that start in a new group, also one that only a pattern names, have their first assignment, "
                "generation 1, from the agent."
            ),
        ),
        ("cooperative-sticky", ("java", "confluent", "java"), False),
    ],
)
def test_the_agent_leads_from_the_first_generation(
    scenario: Scenario, assignor: str, clients: tuple[str, ...], *, by_pattern: bool
) -> None:
    """Consumers that start in an empty group get their first assignment from the agent, eager or cooperative."""
    scenario.lay_out(INTERLEAVED)
    if by_pattern:
        agent = scenario.agent(groups=[f"{scenario.group}*"], election__group=f"samerack-{scenario.group}")
        agent.wait(lambda: bool(agent.events("pattern-matches-no-group")), "all groups are listed")
        agent.wait(lambda: bool(agent.events("elected")), "its first election, which itself takes a birth, is over")
    else:
        agent = scenario.waiting_agent()
    assert scenario.agent_member() is None
    assert agent.get("/readyz")[0] == 200
    for client, rack in zip(clients, (A, B, C), strict=True):
        scenario.join(client, rack, assignor=assignor)
    scenario.wait_settled(cross_rack=0)
    assert agent.role(scenario.group) == "leading"
    assert agent.events("plan-sent")[0]["generation"] == 1
    assert agent.events("role", now="following") == []
    scenario.finish()


@pytest.mark.promise("The agent leaves the group with its last consumer, and leads the next consumers.")
def test_the_agent_leaves_with_the_last_consumer(scenario: Scenario) -> None:
    """After the last consumer has left, the group is Empty, as without an agent; the agent leads the next ones too."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    for _ in range(2):
        for client, rack in (("confluent", A), ("java", B)):
            scenario.join(client, rack)
        scenario.wait_led(agent, cross_rack=2)
        for one in tuple(scenario.participants):
            scenario.leave(one)
        wait_until(lambda: scenario.describe().state.name == "EMPTY", "the group is empty")
        agent.wait_role("waiting")
