"""A member that is away stops its group in every rebalance: the agent starts none meanwhile."""

from __future__ import annotations

import pytest

from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario


@pytest.mark.promise(
    "While a member that was killed may still have a session, the agent starts no rebalance: the others read on."
)
def test_the_living_read_on_until_the_session_of_a_killed_member_ends(scenario: Scenario) -> None:
    """Replicas swap racks right after a member was killed: nobody's partitions change before the broker removes it."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    for client, rack in (("java", A), ("confluent", B), ("confluent", C)):
        scenario.join(client, rack, session_timeout_ms="20000")
    scenario.wait_led(agent, cross_rack=0)
    dead = scenario.participants[-1]
    scenario.leave(dead, kill=True)
    before = scenario.rebalances()
    first, second = (scenario.admin.replicas([scenario.topic])[scenario.topic, number].replicas for number in (0, 1))
    scenario.admin.move_replicas({(scenario.topic, 0): second, (scenario.topic, 1): first})
    while True:
        rebalances = scenario.rebalances()
        if dead.settings.client_id not in {member.client_id for member in scenario.describe().members}:
            break
        assert rebalances == before, "the group waits for the dead member"
    scenario.wait_settled()
    scenario.wait_read()
    assert not agent.events("decision", action="rebalance"), "what follows the death needs no rebalance by the agent"
    # what the dead member had read and not committed is read twice: no `finish`
