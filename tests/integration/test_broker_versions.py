"""The agent's report of its brokers' versions."""

from __future__ import annotations

import json

import pytest

from samerack.agent.leading.order import is_led_unknowingly
from samerack.cluster import group_member
from samerack.cluster.versions import FLOOR, TESTED
from sandbox.jvm import BROKER_VERSION
from tests.integration.scene import Scene
from tests.integration.test_broker_facts import Enter, _settle, enter

__all__ = ["enter"]


@pytest.fixture
def release() -> str:
    """The release of the brokers that the test runs on, as the agent reports it."""
    return ".".join(BROKER_VERSION.split(".")[:2])


def test_the_agent_says_what_the_brokers_can_do(scene: Scene, release: str) -> None:
    """One log line and /v1/status have the brokers' release and the supported ones, and no missing feature."""
    agent = scene.waiting_agent()
    agent.wait(lambda: bool(agent.events("broker-versions")), "it has asked")
    (event,) = agent.events("broker-versions")
    assert (event["releases"], event["without"]) == ([release], {})
    assert f"from Kafka {FLOOR}" in event["supported"]
    assert "a restarted leader still leads" in event["has"]
    told = json.loads(agent.get("/v1/status")[1])["brokers"]
    assert told == {"releases": [release], "least": FLOOR, "tested": list(TESTED), "missing": [], "unsupported": ""}


def test_a_restarted_leader_that_is_not_told_so_asks_for_one_rebalance(
    enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JoinGroup v7, the last before Kafka 3.2's, names its former id as the leader; after one nudge it leads again."""
    monkeypatch.setattr(group_member, "JOIN_VERSION", 7)
    first, other = enter("agent"), enter("other")
    _settle([first])
    _settle([first, other])
    generation, former = first.membership.generation_id, first.membership.member_id
    first.vanish()
    again = enter("agent")
    _settle([again])
    assert (again.membership.leading, again.membership.leader_id) == (False, former)
    assert is_led_unknowingly(again.membership.describe(), former, "agent")
    again.membership.nudge()
    _settle([again, other])
    assert again.membership.leading
    assert again.membership.generation_id == generation + 1
