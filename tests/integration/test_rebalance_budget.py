"""On real brokers, the group has no rebalance that the policy forbids, and a delayed one happens in time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.sandbox.agent_process import AgentProcess
from tests.integration.scene import INTERLEAVED, A, B, C, Scene, holds_for

_QUIET_SECONDS = 3.0


def _led(scene: Scene, **settings: Any) -> AgentProcess:
    """Starts an agent that leads three members, with all partitions read in rack."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent(**settings)
    for rack in (A, B, C):
        scene.join("confluent", rack)
    scene.wait_led(agent, cross_rack=0)
    return agent


def _swap(scene: Scene, first: int, second: int) -> None:
    """Swaps the racks of two partitions."""
    placed = scene.admin.replicas([scene.topic])
    there, here = (placed[scene.topic, number].replicas for number in (second, first))
    scene.admin.move_replicas({(scene.topic, first): there, (scene.topic, second): here}, elect=False)


def _policy(agent: AgentProcess) -> dict[str, Any]:
    (told,) = json.loads(agent.get("/v1/policy")[1])["groups"]
    assert isinstance(told, dict)
    return told


@pytest.mark.promise(
    "In mode propose the agent starts no rebalance, says what it would do, and plans the rebalances that others start."
)
def test_who_proposes_triggers_nothing_and_plans_what_others_begin(scene: Scene) -> None:
    """In mode `propose` a swap of replicas is proposed once and counted; a member's restart leads to the best plan."""
    agent = _led(scene, policy__mode="propose")
    before = scene.rebalances()
    _swap(scene, 0, 1)

    def proposals() -> float | None:
        return agent.metric("samerack_proposals_total", group=scene.group, reason="racks-changed")

    agent.wait(lambda: proposals() == 1, "it proposes a rebalance")
    assert holds_for(_QUIET_SECONDS, lambda: scene.rebalances() == before and proposals() == 1)
    assert scene.cross_rack() == 2
    agent.wait(lambda: (_policy(agent)["mode"], _policy(agent)["waits"]) == ("propose", "proposed"), "it says so")
    decisions = [(decision["action"], decision["reason"]) for decision in agent.events("decision")]
    assert decisions.count(("propose", "racks-changed")) == 1
    assert agent.metric("samerack_rebalances_total", group=scene.group, reason="racks-changed") == 0

    scene.redeploy(scene.seats[0])
    scene.wait_settled(cross_rack=0)
    scene.finish()
