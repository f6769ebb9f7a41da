"""A clean takeover of running groups: the agent leads within seconds, nothing is lost, and nothing is read twice."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from sandbox.agent_process import AgentProcess
from tests.integration.scene import A, B, C, Scene, now_ms

SPREAD = ((2,), (3,), (1,), (2,), (3,), (1,))
"""Brokers by partition: roundrobin, whose members come in the order of racks, has none of them near."""
_ASSIGNORS = {"kafka-python": "range"}
"""kafka-python's roundrobin fails on a member without topics; the others' range would know racks."""
_PAUSES = {"java": 1.0, "kafka-python": 1.0, "aiokafka": 1.0, "confluent": 3.0}
"""The longest pause in seconds; librdkafka joins once in a second at most."""


def _following(scene: Scene, *clients: str, **settings: Any) -> AgentProcess:
    """A group of these clients that reads across racks, and an agent in it that follows."""
    scene.lay_out(SPREAD)
    for client, rack in zip(clients, (A, B, C), strict=True):
        scene.join(client, rack, assignor=_ASSIGNORS.get(client, "roundrobin"))
    scene.wait_settled()
    agent = scene.agent(**settings)
    agent.wait_role("following")
    scene.wait_settled()
    return agent


def _lead(scene: Scene, agent: AgentProcess, *options: str) -> tuple[int, dict[str, Any]]:
    """`samerack lead GROUP --takeover clean --json`: exit code and answer."""
    url = agent.events("started")[0]["url"].removesuffix("/metrics")
    line = [sys.executable, "-m", "agent.cli.main", "lead", scene.group, "--takeover", "clean", "--json"]
    done = subprocess.run([*line, "--url", url, *options], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("client", ["java", "confluent", "kafka-python"])
def test_a_running_group_is_taken_over(scene: Scene, client: str) -> None:
    """Asked to, the agent leads; its plan has everything near, the pause is short, no record is lost or read twice."""
    agent = _following(scene, client, client, client)
    since = now_ms()
    code, answer = _lead(scene, agent)
    assert (code, answer["outcome"]) == (0, "leads"), answer
    assert agent.role() == "leading"
    scene.wait_settled(cross_rack=0)
    pause = scene.longest_pause(since_ms=since)
    print(f"{client}: pause {pause:.2f} s, {answer}")  # noqa: T201 - pytest -rP shows what was measured
    assert pause < _PAUSES[client]
    scene.finish()
