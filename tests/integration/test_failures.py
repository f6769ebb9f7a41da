"""Behavior of a group when its agent or a broker fails: the tables of docs/leading.md and docs/operating.md."""

import time

import pytest

from lab.sandbox.admin import wait_until
from tests.integration.scenario import Scenario, holds_for, now_ms

_LONG_SESSION_SECONDS = 60.0
"""More than a busy machine needs to start a process."""


def _wait_gone(scenario: Scenario) -> None:
    """Wait until the agent is removed from the group and the group is stable."""
    wait_until(lambda: scenario.agent_member() is None, "the agent is no member any more", timeout=60)
    scenario.wait_settled()


@pytest.mark.promise("After kill -9 of the agent its members read on, and lead themselves after its session.")
def test_a_killed_agent_stops_nobody(scenario: Scenario) -> None:
    """Members keep reading while the dead agent is still a member; after its session a member leads."""
    agent = scenario.led()
    killed, since = time.monotonic(), now_ms()
    agent.kill()
    scenario.wait_read()
    _wait_gone(scenario)
    pause = scenario.longest_pause(since_ms=since)
    print(f"led itself after {time.monotonic() - killed:.1f} s, longest pause {pause:.1f} s")  # noqa: T201 - pytest -rP shows the measurement
    scenario.wait_read()
    scenario.finish()


@pytest.mark.promise("On SIGTERM the agent leaves its group, and a member leads.")
def test_sigterm_hands_the_group_back(scenario: Scenario) -> None:
    """On SIGTERM the agent leaves the group before it ends; a member leads."""
    agent = scenario.led()
    since = now_ms()
    code, seconds = agent.stop()
    assert code == 0
    assert scenario.agent_member() is None
    scenario.wait_settled()
    pause = scenario.longest_pause(since_ms=since)
    print(f"ended after {seconds:.1f} s, longest pause {pause:.1f} s")  # noqa: T201 - see above
    assert [event["event"] for event in agent.events()][-1] == "stopped"
    scenario.finish()


@pytest.mark.promise(
    "An agent that is killed and restarted within its session leads the same generation, without a rebalance."
)
def test_a_restarted_agent_keeps_the_lead(scenario: Scenario) -> None:
    """An agent that is killed and restarted within its session leads the same generation, without a rebalance."""
    agent = scenario.led(leading__session_timeout_seconds=_LONG_SESSION_SECONDS, election__identity="same")
    generation = agent.events("plan-sent")[-1]["generation"]
    before = scenario.rebalances()
    agent.kill()
    again = scenario.agent(leading__session_timeout_seconds=_LONG_SESSION_SECONDS, election__identity="same")
    again.wait_role("leading")
    assert [event["generation"] for event in again.events("joined")] == [generation]
    assert holds_for(2.0, lambda: scenario.rebalances() == before)
    assert again.events("plan-sent") == []
    scenario.swap_racks()
    scenario.finish()


def test_a_paused_agent_comes_back_as_a_follower(scenario: Scenario) -> None:
    """An agent that is suspended for longer than its session loses its membership, and follows afterwards."""
    agent = scenario.led()
    agent.pause()
    _wait_gone(scenario)
    agent.resume()
    agent.wait_role("following")
    scenario.wait_settled()
    assert scenario.agent_member() is not None
    scenario.finish()


@pytest.mark.promise("Of two agents with one instance id the second leads without a rebalance, and the first stops.")
def test_a_second_agent_fences_the_first(scenario: Scenario) -> None:
    """Without an election the second agent replaces the first without a rebalance; the first is fenced and logs it."""
    first = scenario.led(election__group="")
    before = scenario.rebalances()
    second = scenario.agent(election__group="")
    second.wait_role("leading")
    first.wait_role("fenced")
    (event,) = first.events("fenced")
    assert "leading.instance_id" in event["cure"]
    status, page = first.get("/readyz")
    assert (status, "fenced" in page) == (503, True)
    assert holds_for(2.0, lambda: scenario.rebalances() == before and first.running and second.role() == "leading")
    scenario.swap_racks()
    first.stop()
    assert second.role() == "leading"
    assert scenario.agent_member() is not None
    scenario.finish()
