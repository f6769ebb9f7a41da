"""An operator has the agent leave a group, or start no rebalance in it, and resume; real consumers read meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from tests.integration.scene import INTERLEAVED, A, B, C, Scene, holds_for

_STAYS_SECONDS = 2.0
"""How long the agent is watched after it has seen that replicas moved: it would act at once."""


def _ask(scene: Scene, agent: AgentProcess, command: str, *options: str) -> dict[str, Any]:
    """Runs a command against the agent; returns its answer."""
    url = agent.events("started")[-1]["url"].removesuffix("/metrics")
    line = [sys.executable, "-m", "samerack.cli.main", command, scene.group, "--json", "--url", url, *options]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _led(scene: Scene) -> AgentProcess:
    """A group that the agent leads, and that reads in its racks."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent()
    for client, rack in (("confluent", A), ("kafka-python", B), ("confluent", C)):
        scene.join(client, rack)
    agent.wait_role("leading")
    scene.wait_settled(cross_rack=0)
    return agent


def _says(agent: AgentProcess, field: str) -> str:
    """What the agent's status says of the group."""
    return str(json.loads(agent.get("/v1/status")[1])["groups"][0][field])


def test_a_group_is_left_on_request_until_the_agent_may_come_back(scene: Scene) -> None:
    """The members go on alone, also when replicas move, the agent's process is replaced, and no record is lost."""
    agent = _led(scene)
    answer = _ask(scene, agent, "leave", "--why", "moving brokers")
    assert answer["role"] == "observing"
    assert scene.presence() is None
    scene.wait_settled()
    assert agent.get("/readyz")[0] == 200
    assert "moving brokers" in _says(agent, "trouble")
    started = agent.events("started")
    os.kill(started[-1]["process"], signal.SIGKILL)
    agent.wait(lambda: len(agent.events("started")) > len(started), "its process is replaced")
    agent.wait_role("observing")
    changes = len(agent.events("change"))
    scene.admin.move_replicas({(scene.topic, 0): [2], (scene.topic, 1): [1]})
    agent.wait(lambda: len(agent.events("change")) > changes, "the move is seen")
    assert holds_for(_STAYS_SECONDS, lambda: scene.presence() is None)
    assert "moving brokers" in _says(agent, "trouble")
    _ask(scene, agent, "resume")
    agent.wait(lambda: agent.role() in ("following", "leading"), "the agent is back")
    assert scene.presence() is not None
    assert _says(agent, "trouble") == ""
    scene.wait_settled()
    scene.finish()


def test_a_paused_agent_leads_and_starts_no_rebalance(scene: Scene) -> None:
    """A move of replicas is not followed before the operator says so."""
    agent = _led(scene)
    before = scene.rebalances()
    answer = _ask(scene, agent, "pause", "--for", "30m")
    assert (answer["role"], answer["requests"][0]["wish"]) == ("leading", "pause")
    scene.admin.move_replicas({(scene.topic, 0): [2], (scene.topic, 1): [1]})
    agent.wait(
        lambda: agent.metric("samerack_suppressed_triggers_total", group=scene.group, reason="paused") == 1.0,
        "the move is seen and not followed",
    )
    time.sleep(_STAYS_SECONDS)
    assert scene.rebalances() == before
    assert (agent.role(), agent.get("/readyz")[0]) == ("leading", 200)
    assert "start no rebalance" in _says(agent, "paused")
    _ask(scene, agent, "resume")
    scene.wait_settled(cross_rack=0)
    wait_until(lambda: _says(agent, "paused") == "", "nothing is in force")
    decision = agent.events("decision")[-1]
    assert (decision["action"], decision["reason"]) == ("rebalance", "racks-changed")
    scene.finish()
