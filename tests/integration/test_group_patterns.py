"""Groups that match a pattern are led as named ones are, from the agent's next poll on."""

from __future__ import annotations

from lab.sandbox.admin import wait_until
from tests.integration.guest import set_offsets
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario, holds_for


def test_groups_of_a_pattern_are_led_and_handed_over(scenario: Scenario, other: Scenario) -> None:
    """Of two groups without consumers one is left out; the other is led from its first generation, and handed over."""
    groups = (f"{scenario.group[:-2]}*", f"{other.group[:-2]}*", f"!{other.group}")
    election = f"samerack-{scenario.group}"
    agents = [scenario.agent(groups=groups, election__group=election, watch__groups_seconds=1) for _ in range(2)]
    for agent in agents:
        agent.wait(lambda agent=agent: bool(agent.events("elected")), "it is elected")  # type: ignore[misc]
        assert agent.roles() == {}
    for one in (scenario, other):
        one.lay_out(INTERLEAVED)
        set_offsets(one, [0] * len(INTERLEAVED))  # so that the group exists
    wait_until(lambda: {agent.role(scenario.group) for agent in agents} == {"waiting", "standby"}, "both have found it")
    active, standby = sorted(agents, key=lambda agent: agent.role(scenario.group), reverse=True)
    for one in (scenario, other):
        for client, rack in (("java", A), ("confluent", B), ("aiokafka", C)):
            one.join(client, rack)
        one.wait_settled()
    active.wait_role("leading", scenario.group)
    scenario.wait_settled(cross_rack=0)
    before = scenario.rebalances()
    active.stop()
    standby.wait_role("leading", scenario.group)
    assert holds_for(2.0, lambda: scenario.rebalances() == before)
    assert set(standby.roles()) == {scenario.group}
    assert other.agent_member() is None
    scenario.finish()
    other.finish()
