"""Settings that change in a running agent: groups that stay notice nothing, others are led or left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lab.sandbox.admin import wait_until
from tests.integration.scenario import INTERLEAVED, Scenario, holds_for


def _write(file: Path, **settings: Any) -> None:
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")


def test_groups_are_added_and_removed_without_a_rebalance_of_the_others(
    scenario: Scenario, other: Scenario, tmp_path: Path
) -> None:
    """The file of settings names one group, then both, is wrong for a while, and then names the other alone."""
    file = tmp_path / "samerack.yaml"
    _write(file, groups=[scenario.group])
    for one in (scenario, other):
        one.lay_out(INTERLEAVED)
    agent = scenario.agent(groups=(), config=file, election__group=f"samerack-{scenario.group}")
    agent.wait_role("waiting", scenario.group)
    for one in (scenario, other):
        one.join_each("java", "confluent", "aiokafka")
        one.wait_settled()
    agent.wait_role("leading", scenario.group)
    scenario.wait_settled(cross_rack=0)
    before = scenario.rebalances()

    _write(file, groups=[scenario.group, other.group])
    agent.wait(lambda: len(agent.events("started")) == 2, "another process has begun")
    agent.wait_role("leading", scenario.group)
    wait_until(lambda: other.agent_member() is not None, "the agent is in the second group")
    assert holds_for(2.0, lambda: scenario.rebalances() == before)
    assert [event["generation"] for event in agent.events("joined", group=scenario.group)] == [1]

    _write(file, groups=[scenario.group], polcy={})
    agent.wait(lambda: bool(agent.events("settings-refused")), "the wrong file is refused")
    assert agent.role(scenario.group) == "leading"

    _write(file, groups=[other.group])
    wait_until(lambda: scenario.agent_member() is None, "the agent has left the first group")
    scenario.wait_settled()
    assert other.agent_member() is not None
    assert not agent.events("worker-died")
    scenario.finish()
    other.finish()
