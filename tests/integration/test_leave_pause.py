"""An operator has the agent leave a group, or start no rebalance in it, and resume; real consumers read meanwhile."""

from __future__ import annotations

import time
from typing import Any

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.commands import samerack_json
from tests.integration.scenario import Scenario, holds_for

_STAYS_SECONDS = 2.0
"""How long the agent is watched after it has seen that replicas moved: it would act at once."""


def _ask(scenario: Scenario, agent: AgentProcess, command: str, *options: str) -> dict[str, Any]:
    """Run a command against the agent; return its answer."""
    return samerack_json(command, scenario.group, "--json", "--url", agent.url, *options)


def test_a_group_is_left_on_request_until_the_agent_may_come_back(scenario: Scenario) -> None:
    """The members go on alone, also when replicas move, the agent's process is replaced, and no record is lost."""
    agent = scenario.led("confluent", "kafka-python", "confluent")
    answer = _ask(scenario, agent, "leave", "--why", "moving brokers")
    assert answer["role"] == "observing"
    assert scenario.agent_member() is None
    scenario.wait_settled()
    assert agent.get("/readyz")[0] == 200
    assert "moving brokers" in agent.group_status()["trouble"]
    agent.worker().kill()
    agent.wait(lambda: len(agent.events("started")) > 1, "its process is replaced")
    agent.wait_role("observing")
    changes = len(agent.events("change"))
    scenario.swap()
    agent.wait(lambda: len(agent.events("change")) > changes, "the move is seen")
    assert holds_for(_STAYS_SECONDS, lambda: scenario.agent_member() is None)
    assert "moving brokers" in agent.group_status()["trouble"]
    _ask(scenario, agent, "resume")
    agent.wait_inside()
    assert scenario.agent_member() is not None
    assert agent.group_status()["trouble"] == ""
    scenario.wait_settled()
    scenario.finish()


def test_an_agent_that_was_asked_to_leave_leads_again(scenario: Scenario) -> None:
    """It follows when the time is over, as it says; where that was wished, it takes the lead over once it may."""
    agent = scenario.led("kafka-python", "aiokafka", "kafka-python")  # whose own plans know no racks
    answer = _ask(scenario, agent, "leave")
    assert "leads when its leader leaves" in answer["after"]
    _ask(scenario, agent, "resume")
    agent.wait_inside()
    if agent.role() == "following":
        agent.wait(lambda: "since the end of" in agent.get("/readyz")[1], "it says since when it follows")
    answer = _ask(scenario, agent, "leave", "--for", "1s", "--lead-again")
    assert answer["after"].endswith("takes over as leader as soon as the policy allows")
    agent.wait_role("leading")
    scenario.wait_settled(cross_rack=0)
    assert "since the end of" not in agent.get("/readyz")[1]
    scenario.finish()


def test_a_paused_agent_leads_and_starts_no_rebalance(scenario: Scenario) -> None:
    """A move of replicas is not followed before the operator says so."""
    agent = scenario.led("confluent", "kafka-python", "confluent")
    before = scenario.rebalances()
    answer = _ask(scenario, agent, "pause", "--for", "30m")
    assert (answer["role"], answer["requests"][0]["kind"]) == ("leading", "pause")
    scenario.swap()
    agent.wait(
        lambda: agent.metric("samerack_suppressed_triggers_total", group=scenario.group, reason="paused") == 1.0,
        "the move is seen and not followed",
    )
    time.sleep(_STAYS_SECONDS)
    assert scenario.rebalances() == before
    assert (agent.role(), agent.get("/readyz")[0]) == ("leading", 200)
    assert "start no rebalance" in agent.group_status()["paused"]
    _ask(scenario, agent, "resume")
    scenario.wait_settled(cross_rack=0)
    wait_until(lambda: agent.group_status()["paused"] == "", "nothing is in force")
    decision = agent.events("decision")[-1]
    assert (decision["action"], decision["reason"]) == ("rebalance", "racks-changed")
    scenario.finish()
