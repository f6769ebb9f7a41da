"""On real brokers, the group has no rebalance that the policy forbids, and a delayed one happens in time."""

from __future__ import annotations

from typing import Any

import pytest

from lab.sandbox.agent_process import AgentProcess
from tests.integration.scenario import Scenario, holds_for

_QUIET_SECONDS = 3.0


def _policy(agent: AgentProcess) -> dict[str, Any]:
    (group,) = agent.json("/v1/policy")["groups"]
    return dict(group)


@pytest.mark.promise(
    "In mode propose the agent starts no rebalance, says what it would do, and plans the rebalances that others start."
)
def test_who_proposes_triggers_nothing_and_plans_what_others_begin(scenario: Scenario) -> None:
    """In mode `propose` a swap of replicas is proposed once and counted; a member's restart leads to the best plan."""
    agent = scenario.led("confluent", "confluent", "confluent", policy__mode="propose")
    before = scenario.rebalances()
    scenario.swap()

    def proposals() -> float | None:
        return agent.metric("samerack_proposals_total", group=scenario.group, reason="racks-changed")

    agent.wait(lambda: proposals() == 1, "it proposes a rebalance")
    assert holds_for(_QUIET_SECONDS, lambda: scenario.rebalances() == before and proposals() == 1)
    assert scenario.cross_rack() == 2
    agent.wait(lambda: (_policy(agent)["mode"], _policy(agent)["waits"]) == ("propose", "proposed"), "it says so")
    decisions = [(decision["action"], decision["reason"]) for decision in agent.events("decision")]
    assert decisions.count(("propose", "racks-changed")) == 1
    assert agent.metric("samerack_rebalances_total", group=scenario.group, reason="racks-changed") is None

    scenario.redeploy(scenario.participants[0])
    scenario.wait_settled(cross_rack=0)
    scenario.finish()
