"""A clean takeover of running groups: the agent leads within seconds, and no record is lost or read twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from sandbox.settings import free_ports
from tests.integration.scene import A, B, C, Scene, now_ms

SPREAD = ((2,), (3,), (1,), (2,), (3,), (1,))
"""Brokers by partition: roundrobin, with members in the order of racks, reads none of them in rack."""
_ASSIGNORS = {"kafka-python": "range"}
"""kafka-python's roundrobin fails on a member without topics; the others' range would be rack-aware."""
_HELD_PAUSE_SECONDS = 20.0
"""The longest if the worker dies while it holds the group: mostly the start of a process on a busy machine."""
_PATIENT = 30.0
"""`leading.takeover_wait_seconds` for members that rejoin late on a busy machine."""
_ANSWER_SECONDS = 120.0
_AGAIN_SECONDS = 60.0
"""How long a takeover is retried if the answer says so, or if it was undone: both happen on a busy machine."""


def _following(scene: Scene, *clients: str, assignor: str = "", **settings: Any) -> AgentProcess:
    """A group of these clients that reads across racks, and an agent in it that follows."""
    scene.lay_out(SPREAD)
    for client, rack in zip(clients, (A, B, C), strict=True):
        scene.join(client, rack, assignor=assignor or _ASSIGNORS.get(client, "roundrobin"))
    scene.wait_settled()
    agent = scene.agent(**{"leading__takeover_wait_seconds": _PATIENT, **settings})
    agent.wait_role("following")
    scene.wait_settled()
    return agent


def _asking(scene: Scene, agent: AgentProcess, *options: str) -> subprocess.Popen[str]:
    """Starts `samerack lead GROUP --takeover clean --json`."""
    url = agent.events("started")[-1]["url"].removesuffix("/metrics")
    line = [sys.executable, "-m", "samerack.cli.main", "lead", scene.group, "--takeover", "clean", "--json"]
    return subprocess.Popen([*line, "--url", url, *options], stdout=subprocess.PIPE, text=True)


def _lead(scene: Scene, agent: AgentProcess, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer of `samerack lead`; retried if the answer says so."""
    until = time.monotonic() + _AGAIN_SECONDS
    while True:
        asking = _asking(scene, agent, *options)
        told, _ = asking.communicate(timeout=_ANSWER_SECONDS)
        answer = json.loads(told)
        if "try again" not in answer["reason"] or time.monotonic() > until:
            return asking.returncode, answer


def _until_held(agent: AgentProcess) -> None:
    """Waits until the leader is evicted and the group held; librdkafka's members need seconds to rejoin."""
    wait_until(lambda: bool(agent.events("takeover", action="hold")), "the group is held", pause=0.01)


def _taken_over(scene: Scene, agent: AgentProcess, client: str) -> None:
    """Has the agent take over; docs/clients.md says how long members pause."""
    until = time.monotonic() + _AGAIN_SECONDS
    while True:
        since = now_ms()
        code, answer = _lead(scene, agent)
        if answer["outcome"] != "undone" or time.monotonic() > until:
            break
        scene.wait_settled()
    assert (code, answer["outcome"]) == (0, "leads"), answer
    assert agent.role() == "leading"
    scene.wait_settled(cross_rack=0)
    pause = scene.longest_pause(since_ms=since)
    print(f"{client}: pause {pause:.2f} s, {answer}")  # noqa: T201 - pytest -rP shows the measurement


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(
            "java",
            marks=pytest.mark.promise(
                "On request the agent takes over a running eager group; no record is lost or read twice."
            ),
        ),
        "confluent",
    ],
)
def test_a_running_group_is_taken_over(scene: Scene, client: str) -> None:
    """On request the agent leads: all reads are in rack, and no record is lost or read twice."""
    _taken_over(scene, _following(scene, client, client, client), client)
    scene.finish()


def test_a_running_group_with_a_sticky_assignor_is_taken_over(scene: Scene) -> None:
    """The agent has no instance id and is not the first in the group: members before it are evicted too."""
    agent = _following(scene, "aiokafka", "aiokafka", "aiokafka", assignor="sticky")
    present = scene.presence()
    assert present is not None
    assert present.group_instance_id is None
    _taken_over(scene, agent, "aiokafka")
    scene.finish()


def test_a_dry_run_and_what_speaks_against_it(scene: Scene) -> None:
    """A dry run reports the gain and changes nothing; once the agent leads, a takeover is refused with exit code 1."""
    agent = _following(scene, "kafka-python", "kafka-python", "kafka-python")
    before = scene.rebalances()
    code, answer = _lead(scene, agent, "--dry-run")
    assert (code, answer["outcome"]) == (0, "would"), answer
    assert answer["gain"]["cross_rack_now"] > answer["gain"]["cross_rack_then"] == 0
    assert answer["gain"]["rejoin_seconds"] > 0
    assert scene.rebalances() == before
    assert agent.role() == "following"
    _taken_over(scene, agent, "kafka-python")
    code, answer = _lead(scene, agent)
    assert (code, answer["outcome"]) == (1, "refused")
    assert "leads it already" in answer["reason"]
    scene.finish()


def test_a_cooperative_group_is_refused(scene: Scene) -> None:
    """A takeover of a cooperative group is refused with the reason, without a rebalance."""
    scene.lay_out(SPREAD)
    for rack in (A, B):
        scene.join("confluent", rack, assignor="cooperative-sticky")
        scene.wait_settled()  # librdkafka's members that join while partitions move may block each other for minutes
    agent = scene.agent()
    agent.wait_role("following")
    scene.wait_settled()
    before = scene.rebalances()
    code, answer = _lead(scene, agent)
    assert (code, answer["outcome"]) == (1, "refused")
    assert "is cooperative" in answer["reason"]
    assert scene.rebalances() == before
    scene.finish()


def test_by_itself_where_the_setting_says_so(scene: Scene) -> None:
    """With the setting, the agent takes over by itself once the group has been stable for some seconds."""
    agent = _following(scene, "kafka-python", "kafka-python", "kafka-python", leading__takeover="clean")
    agent.wait_role("leading", timeout=150)  # an undone takeover is retried
    scene.wait_settled(cross_rack=0)
    assert agent.events("takeover", action="leads")
    scene.finish()


def test_killed_while_the_group_is_held(scene: Scene) -> None:
    """If the worker dies while the group is held, the supervisor removes the pending member: the pause is bounded."""
    agent = _following(scene, "confluent", "confluent", "confluent", web__port=free_ports(1)[0])
    worker = psutil.Process(agent.events("started")[-1]["process"])
    since = now_ms()
    asking = _asking(scene, agent)
    _until_held(agent)
    worker.kill()
    scene.wait_settled()
    pause = scene.longest_pause(since_ms=since)
    told, _ = asking.communicate(timeout=_ANSWER_SECONDS)
    print(f"pause {pause:.2f} s, {told}")  # noqa: T201 - see above
    assert asking.returncode == 1
    assert pause < _HELD_PAUSE_SECONDS
    assert agent.events("leaves-for-worker")
    agent.wait(lambda: agent.role() in ("leading", "following"), "another worker is in the group")
    scene.finish()


def test_an_evicted_leader_that_does_not_come_back(scene: Scene) -> None:
    """If an evicted leader does not rejoin, the group continues without it after 4 s; it rejoins when it resumes."""
    agent = _following(scene, "confluent", "confluent", "confluent")
    leader = str(agent.events("joined")[-1]["leader"])
    (seat,) = (seat for seat in scene.seats if leader.startswith(seat.settings.client_id))
    asking = _asking(scene, agent)
    _until_held(agent)
    os.kill(seat.member.pid, signal.SIGSTOP)
    try:
        told, _ = asking.communicate(timeout=_ANSWER_SECONDS)
    finally:
        os.kill(seat.member.pid, signal.SIGCONT)
    answer = json.loads(told)
    assert (asking.returncode, answer["outcome"], agent.role()) == (0, "leads", "leading"), answer
    # less than four if a follower that would have led was evicted too, and its rejoin was enough; always shorter than
    # the shortest session timeout that brokers allow by default
    assert 0.3 < answer["held_seconds"] < 6.0
    scene.wait_settled()
    scene.finish()


def test_a_member_that_sleeps_is_not_waited_for(scene: Scene) -> None:
    """After leading.takeover_wait_seconds the agent does not hold the group for a member that does not rejoin."""
    agent = _following(scene, "kafka-python", "kafka-python", "kafka-python", leading__takeover_wait_seconds=5.0)
    slow = scene.seats[0].member
    os.kill(slow.pid, signal.SIGSTOP)
    try:
        code, answer = _lead(scene, agent)
    finally:
        os.kill(slow.pid, signal.SIGCONT)
    assert (code, answer["outcome"]) == (1, "undone"), answer
    assert "takeover_wait_seconds" in answer["reason"]
    assert answer["held_seconds"] == 0
    scene.wait_settled()
    scene.finish()
