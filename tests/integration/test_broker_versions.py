"""The agent's report of its brokers' versions."""

from __future__ import annotations

import pytest

from lab.sandbox.jvm import BROKER_VERSION
from samerack.cluster.versions import FLOOR, TESTED
from tests.integration.scenario import Scenario


@pytest.fixture
def release() -> str:
    """The release of the brokers that the test runs on, as the agent reports it."""
    return ".".join(BROKER_VERSION.split(".")[:2])


def test_the_agent_says_what_the_brokers_can_do(scenario: Scenario, release: str) -> None:
    """One log line and /v1/status have the brokers' release and the supported ones, and no missing feature."""
    agent = scenario.waiting_agent()
    agent.wait(lambda: bool(agent.events("broker-versions")), "it has asked")
    (event,) = agent.events("broker-versions")
    assert (event["releases"], event["without"]) == ([release], {})
    assert f"from Kafka {FLOOR}" in event["supported"]
    assert "a restarted leader still leads" in event["has"]
    brokers = agent.json("/v1/status")["brokers"]
    assert brokers == {"releases": [release], "least": FLOOR, "tested": list(TESTED), "missing": [], "unsupported": ""}
