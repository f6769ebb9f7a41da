"""Behavior of a led group when its coordinator restarts, on the secured cluster: no other test runs on it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.contract import KafkaCluster
from tests.integration.scenario import Scenario, holds_for, now_ms
from tests.integration.secured import Secured

pytestmark = pytest.mark.own_cluster


@pytest.fixture
def cluster(secured: Secured) -> Iterator[KafkaCluster]:
    """The secured cluster; all of its brokers run afterwards."""
    yield secured.cluster
    for broker in secured.cluster.brokers.values():
        if not broker.running:
            secured.cluster.start_broker(broker.id)


@pytest.mark.promise("When the group's coordinator restarts, the agent keeps membership and lead, without a rebalance.")
def test_the_coordinator_restarts(scenario: Scenario) -> None:
    """Another broker takes over the group: the agent keeps membership and lead, without a rebalance."""
    agent = scenario.led()
    before, agent_member = scenario.rebalances(), scenario.agent_member()
    assert agent_member is not None
    coordinator, restarted = scenario.coordinator(), now_ms()
    scenario.cluster.restart_broker(coordinator)
    wait_until(lambda: scenario.agent_member() is not None, "a coordinator describes the group")
    # by the agent's log: on a busy machine an HTTP answer may be late, and would look like another role
    held = holds_for(2.0, lambda: scenario.rebalances() == before and agent.events("role")[-1]["now"] == "leading")
    assert held, (agent.events()[-15:], scenario.rebalanced_since(restarted))
    after = scenario.agent_member()
    assert after is not None
    assert after.member_id == agent_member.member_id
    scenario.swap_racks()
    assert agent.events("role")[-1]["now"] == "leading"
    scenario.finish()
