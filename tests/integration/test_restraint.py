"""Groups that the agent leaves alone: where each rebalance is a long pause, and where following does harm."""

from __future__ import annotations

from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario, holds_for

_STAYS_SECONDS = 15.0
_EVENTS = 6
"""What a rebalance of three members is: each gives its partitions back, and gets some."""


def test_a_group_whose_members_are_busy_is_not_rebalanced_for_racks(scenario: Scenario) -> None:
    """Members that work for seconds on each poll join late: the decision says so, and the group reads on as it is."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent(policy__max_pause_seconds=0.5)
    for rack in (A, B, C):
        scenario.join("kafka-python", rack, busy_seconds="8")
    scenario.wait_led(agent, cross_rack=0)
    scenario.redeploy(scenario.participants[0])
    scenario.wait_settled(cross_rack=0)
    rebalances = scenario.rebalances()
    first, second = (scenario.admin.replicas([scenario.topic])[scenario.topic, number].replicas for number in (0, 1))
    scenario.admin.move_replicas({(scenario.topic, 0): second, (scenario.topic, 1): first})
    agent.wait(
        lambda: bool(agent.events("decision", reason="pause-too-long")), "the decision has the pause as its reason"
    )
    assert agent.events("decision", reason="pause-too-long")[-1]["expected_pause_seconds"] > 0.5
    assert holds_for(_STAYS_SECONDS, lambda: scenario.rebalances() == rebalances)
    scenario.finish()


def test_a_leader_that_deals_to_everyone_is_left_at_once(scenario: Scenario) -> None:
    """It gave the agent partitions in six generations within six seconds: after one gift the agent stays out.

    From their first generation on the agent leads the same members without harm.
    """
    scenario.lay_out(INTERLEAVED)
    for rack in (A, B, C):
        scenario.join("kafka-python", rack, assignor="roundrobin-to-everyone")
    scenario.wait_settled()
    before = scenario.rebalances()
    agent = scenario.agent(leading__allow_roundrobin_v0=True)
    agent.wait(lambda: bool(agent.events("backs-off")), "it has left")
    agent.wait_role("observing")
    scenario.wait_settled()
    assert scenario.agent_member() is None
    after = scenario.rebalances()
    assert after <= before + _EVENTS * 2, "it came, and it left"
    assert holds_for(_STAYS_SECONDS, lambda: scenario.agent_member() is None and scenario.rebalances() == after)
    stopped = list(scenario.participants)
    for one in stopped:
        scenario.leave(one)
    agent.wait_role("waiting")
    for one in stopped:
        scenario.join("kafka-python", one.rack, assignor="roundrobin-to-everyone")
    scenario.wait_led(agent, cross_rack=0)
    scenario.finish()
