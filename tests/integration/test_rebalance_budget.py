"""On real brokers, the group has no rebalance that the policy forbids, and a delayed one happens in time."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from sandbox.agent_process import AgentProcess
from tests.integration.scene import INTERLEAVED, A, B, C, Scene, holds_for

_HALF_MINUTES = [{"cron": "* * * * *", "minutes": 0.5}]
"""Windows that are open in the first half of each minute."""
_LEFT_SECONDS = 6.0
"""The time to move replicas, and for the agent to see it."""
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


def _suppressed(agent: AgentProcess, scene: Scene, reason: str) -> bool:
    return bool(agent.metric("samerack_suppressed_triggers_total", group=scene.group, reason=reason))


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


def test_outside_of_its_windows_a_rebalance_waits(scene: Scene) -> None:
    """A swap while the window is closed is followed when it opens, and the agent reports that time."""
    agent = _led(scene, policy__windows=_HALF_MINUTES)
    into = time.time() % 60
    if not 30 < into < 60 - _LEFT_SECONDS:
        time.sleep((31 - into) % 60)
    before, opens = scene.rebalances(), (time.time() // 60 + 1) * 60
    _swap(scene, 0, 1)
    agent.wait(lambda: _suppressed(agent, scene, "outside-window"), "it waits for the window", timeout=_LEFT_SECONDS)
    agent.wait(lambda: _policy(agent)["waits_until"] == opens, "it tells when the window opens", timeout=2)
    assert scene.rebalances() == before
    scene.wait_settled(cross_rack=0)
    assert opens < time.time() < opens + 15
    scene.finish()


def test_no_restart_gets_around_the_cap(scene: Scene, tmp_path: Path) -> None:
    """The agent does not trigger a second rebalance in the hour, nor after it is killed and restarted."""
    settings: dict[str, Any] = {
        "policy__max_per_hour": 1,
        "leading__session_timeout_seconds": 20,
        "election__identity": "same",
        "events__path": str(tmp_path / "events.db"),
    }
    agent = _led(scene, **settings)
    _swap(scene, 0, 1)
    scene.wait_settled(cross_rack=0)
    _swap(scene, 1, 2)
    agent.wait(lambda: _suppressed(agent, scene, "hourly-cap"), "it has had its rebalance")
    agent.kill()
    again = scene.agent(**settings)
    again.wait_role("leading")
    before = scene.rebalances()
    again.wait(lambda: _suppressed(again, scene, "hourly-cap"), "it knows of its rebalance")
    assert holds_for(_QUIET_SECONDS, lambda: scene.rebalances() == before)
    assert scene.cross_rack() == 2
    scene.finish()
