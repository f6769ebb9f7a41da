"""The agent backs off from a group, reports the cause, observes, and returns by the rule of the cause."""

from __future__ import annotations

import json

import pytest

from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.jvm import BROKER_VERSION
from samerack.agent.policy.back_off_causes import RULES, Cause
from tests.integration.scenario import INTERLEAVED, A, B, Scenario


def _backed_off(agent: AgentProcess, scenario: Scenario, cause: Cause) -> None:
    """Wait until the agent backs off for this cause; asserts that log, metrics, readiness and status report it."""
    agent.wait(lambda: bool(agent.events("backs-off", cause=cause.value)), f"it backs off: {cause}")
    agent.wait_role("observing")
    event = agent.events("backs-off", cause=cause.value)[0]
    assert event["seconds"] == RULES[cause].first_seconds
    assert agent.group_status()["trouble"] == event["reason"]
    status, page = agent.get("/readyz")
    assert (status, event["reason"] in json.loads(page).get(f"group {scenario.group}", page)) == (503, True)
    assert agent.metric("samerack_back_offs_total", group=scenario.group, cause=cause.value) == 1.0


@pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4")
@pytest.mark.promise(
    "The agent leaves a group that a member of the new protocol converts, and comes back when it is classic again."
)
def test_a_converted_group_is_left_until_it_is_classic_again(scenario: Scenario) -> None:
    """When a member of the new protocol converts a led group, the agent leaves; when that member ends, it rejoins.

    It learns of the conversion when it rejoins, or before, when it polls the group: then it only observes.
    """
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    scenario.join("confluent", A)
    scenario.wait_settled()
    scenario.join("confluent", B, assignor="", heartbeat_interval_ms="", group_protocol="consumer")
    seen = "the brokers assign it (group type consumer)"
    agent.wait(lambda: bool(agent.events("backs-off") or agent.events("observing", reason=seen)), "it is out")
    if agent.events("backs-off"):
        _backed_off(agent, scenario, Cause.CONVERTED)
    scenario.wait_settled()
    assert scenario.agent_member() is None
    agent.wait(lambda: bool(agent.events("observing", reason=seen)), "after its pause it asks what the group is")
    status, page = agent.get("/readyz")
    assert (agent.role(), status) == ("observing", 503)
    assert seen in page
    scenario.leave(scenario.participants[-1])
    agent.wait_inside()
    scenario.wait_settled()
    scenario.finish()
