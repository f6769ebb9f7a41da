"""A clean takeover of running groups: the agent leads within seconds, and no record is lost or read twice."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.commands import SAMERACK
from lab.sandbox.settings import free_ports
from tests.integration.scenario import Scenario, now_ms

SPREAD = ((2,), (3,), (1,), (2,), (3,), (1,))
"""Brokers by partition: roundrobin, with members in the order of racks, reads none of them in rack."""
_HELD_PAUSE_SECONDS = 20.0
"""The longest if the worker dies while it holds the group: mostly the start of a process on a busy machine."""
_PATIENT = 30.0
"""`leading.takeover_wait_seconds` for members that rejoin late on a busy machine."""
_ANSWER_SECONDS = 120.0


def _following(scenario: Scenario, client: str, **settings: Any) -> AgentProcess:
    """A group of three members on this client that reads across racks, and an agent in it that follows."""
    scenario.lay_out(SPREAD)
    scenario.join_each(client, client, client, assignor="roundrobin")
    scenario.wait_settled()
    agent = scenario.agent(leading__takeover_wait_seconds=_PATIENT, **settings)
    agent.wait_role("following")
    scenario.wait_settled()
    return agent


def _asking(scenario: Scenario, agent: AgentProcess) -> subprocess.Popen[str]:
    """Start `samerack lead GROUP --json`."""
    line = [*SAMERACK, "lead", scenario.group, "--json", "--url", agent.url]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)


@pytest.mark.promise("On request the agent takes over a running eager group; no record is lost or read twice.")
def test_a_running_group_is_taken_over(scenario: Scenario) -> None:
    """On request the agent leads: all reads are in rack, and no record is lost or read twice.

    It is asked again where it says so, and where a busy machine has undone it. docs/clients.md says how long members
    pause.
    """
    agent = _following(scenario, "java")
    tries: list[tuple[int, int, dict[str, Any]]] = []

    def ended() -> bool:
        since, asking = now_ms(), _asking(scenario, agent)
        printed, _ = asking.communicate(timeout=_ANSWER_SECONDS)
        answer = json.loads(printed)
        tries.append((since, asking.returncode, answer))
        undone = answer["outcome"] == "undone"
        if undone:
            scenario.wait_settled()
        return not undone and "try again" not in answer["reason"]

    wait_until(ended, "the takeover has ended")
    since, code, answer = tries[-1]
    assert (code, answer["outcome"]) == (0, "leads"), answer
    assert agent.role() == "leading"
    scenario.wait_settled(cross_rack=0)
    print(f"pause {scenario.longest_pause(since_ms=since):.2f} s, {answer}")  # noqa: T201 - pytest -rP shows the measurement
    scenario.finish()


def test_killed_while_the_group_is_held(scenario: Scenario) -> None:
    """If the worker dies while the group is held, the supervisor removes the pending member: the pause is bounded."""
    agent = _following(scenario, "confluent", web__port=free_ports(1)[0])
    worker = agent.worker()
    since = now_ms()
    asking = _asking(scenario, agent)
    # librdkafka's members need seconds to rejoin
    wait_until(lambda: bool(agent.events("takeover", action="hold")), "the group is held", pause=0.01)
    worker.kill()
    scenario.wait_settled()
    pause = scenario.longest_pause(since_ms=since)
    printed, _ = asking.communicate(timeout=_ANSWER_SECONDS)
    print(f"pause {pause:.2f} s, {printed}")  # noqa: T201 - see above
    assert asking.returncode == 1
    assert pause < _HELD_PAUSE_SECONDS
    assert agent.events("leaves-for-worker")
    agent.wait_inside()
    scenario.finish()
