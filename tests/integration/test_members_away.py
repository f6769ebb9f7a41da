"""A member that is away stops its group in every rebalance: the agent starts none meanwhile."""

from __future__ import annotations

import pytest

from lab.sandbox.admin import wait_until
from tests.integration.scenario import INTERLEAVED, A, B, C, Participant, Scenario

_SESSION = "20000"


@pytest.mark.promise(
    "While a member that was killed may still have a session, the agent starts no rebalance: the others read on."
)
def test_the_living_read_on_until_the_session_of_a_killed_member_ends(scenario: Scenario) -> None:
    """Replicas swap racks right after a member was killed: nobody's partitions change before the broker removes it."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    scenario.join_each("java", "confluent", "confluent", session_timeout_ms=_SESSION)
    scenario.wait_led(agent, cross_rack=0)
    dead = scenario.participants[-1]
    scenario.leave(dead, kill=True)
    before = scenario.rebalances()
    scenario.swap()
    _others_read_on(scenario, dead, before)
    assert not agent.events("decision", action="rebalance"), "what follows the death needs no rebalance by the agent"
    # what the dead member had read and not committed is read twice: no `finish`


def test_static_members_that_return_in_other_racks_stop_nobody_while_another_is_away(scenario: Scenario) -> None:
    """A rolling restart: two are back in each other's rack, and the third stays away until its session ends."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()

    for number, rack in enumerate((A, B, C)):
        instance = f"{scenario.group}-{number}"
        scenario.join("java", rack, group_instance_id=instance, session_timeout_ms=_SESSION)
    scenario.wait_led(agent, cross_rack=0)
    first, second, third = scenario.participants
    for one, rack in ((first, B), (second, A)):
        scenario.redeploy(one, rack=rack)
        wait_until(lambda: bool(scenario.participants[-1].member.owned), "it has its partitions again")
    before = scenario.rebalances()
    scenario.leave(third)
    _others_read_on(scenario, third, before + 1)  # it gives its own back as it ends
    assert not agent.events("decision", action="rebalance"), "what follows needs no rebalance by the agent"
    scenario.finish()


def _others_read_on(scenario: Scenario, away: Participant, before: int) -> None:
    """Check that nobody's partitions change until the broker has removed a member that is away."""
    while True:
        rebalances = scenario.rebalances()
        if away.settings.client_id not in {member.client_id for member in scenario.describe().members}:
            break
        assert rebalances <= before, f"the group waits for {away.settings.client_id}"
    scenario.wait_settled()
    scenario.wait_read()
