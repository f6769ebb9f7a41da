"""The agent backs off from a group, reports the cause, observes, and returns by the rule of the cause."""

from __future__ import annotations

import json
import time

import pytest

from samerack.agent.leading.membership import Membership
from samerack.agent.policy.back_off_causes import RULES, Cause
from samerack.cluster.client import close, connect
from samerack.common.kafka_config import for_kafka_python
from samerack.common.settings import LeadingSettings
from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from sandbox.jvm import BROKER_VERSION
from tests.integration.scene import AGENT, INTERLEAVED, A, B, Scene


def _trouble(agent: AgentProcess) -> str:
    """The reason why the agent is not in its group, by /v1/status."""
    (group,) = json.loads(agent.get("/v1/status")[1])["groups"]
    return str(group["trouble"])


def _backed_off(agent: AgentProcess, scene: Scene, cause: Cause) -> None:
    """Waits until the agent backs off for this cause; asserts that log, metrics, readiness and status report it."""
    agent.wait(lambda: bool(agent.events("backs-off", cause=cause.value)), f"it backs off: {cause}")
    agent.wait_role("observing")
    event = agent.events("backs-off", cause=cause.value)[0]
    assert event["seconds"] == RULES[cause].first_seconds
    assert _trouble(agent) == event["reason"]
    status, page = agent.get("/readyz")
    assert (status, event["reason"] in json.loads(page).get(f"group {scene.group}", page)) == (503, True)
    assert agent.metric("samerack_back_offs_total", group=scene.group, cause=cause.value) == 1.0


def test_a_foreign_agent_is_made_room_for(scene: Scene) -> None:
    """Of two agents without a common election, the second stays out while the first is in, and joins after it."""
    scene.lay_out(INTERLEAVED)
    first = scene.waiting_agent(leading__instance_id="other", election__group=f"{scene.group}-other")
    scene.join("confluent", A)
    scene.wait_settled()
    plans = len(first.events("plan-sent"))
    second = scene.agent()
    _backed_off(second, scene, Cause.FOREIGN_AGENT)
    assert "another agent (other) is in it" in second.events("backs-off")[0]["reason"]
    time.sleep(RULES[Cause.FOREIGN_AGENT].first_seconds + 1)
    assert (first.role(), second.role()) == ("leading", "observing")
    assert len(first.events("plan-sent")) <= plans + 2  # the second agent's join and leave
    first.stop()
    second.wait_role("following")
    assert _trouble(second) == ""
    scene.wait_settled()
    scene.finish()


@pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4")
@pytest.mark.promise(
    "The agent leaves a group that a member of the new protocol converts, and comes back when it is classic again."
)
def test_a_converted_group_is_left_until_it_is_classic_again(scene: Scene) -> None:
    """When a member of the new protocol converts a led group, the agent leaves; when that member ends, it rejoins.

    It learns of the conversion when it rejoins, or before, when it polls the group: then it only observes.
    """
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent()
    scene.join("confluent", A)
    scene.wait_settled()
    scene.join("confluent", B, assignor="", heartbeat_interval_ms="", group_protocol="consumer")
    seen = "the brokers assign it (group type consumer)"
    agent.wait(lambda: bool(agent.events("backs-off") or agent.events("observing", reason=seen)), "it is out")
    if agent.events("backs-off"):
        _backed_off(agent, scene, Cause.CONVERTED)
    scene.wait_settled()
    assert scene.presence() is None
    agent.wait(lambda: bool(agent.events("observing", reason=seen)), "after its pause it asks what the group is")
    status, page = agent.get("/readyz")
    assert (agent.role(), status) == ("observing", 503)
    assert seen in page
    scene.leave(scene.seats[-1])
    agent.wait(lambda: agent.role() in ("following", "leading"), "it is in the group again")
    scene.wait_settled()
    scene.finish()


def test_three_failed_plans_are_enough(scene: Scene) -> None:
    """With a deadline that no plan can keep, each plan is the fall-back; after three, the agent leaves the group.

    At first there is no time for the topic's metadata, and the agent backs off for that; it returns with the metadata.
    If it had the metadata in time, the members that joined one after the other already caused three plans.
    """
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent(leading__deadline_seconds=0.0001)

    def failed() -> bool:
        return bool(agent.events("backs-off", cause=Cause.PLANS_FAILED.value))

    for rack in (A, B, A):
        scene.join("confluent", rack)
    scene.wait_settled()

    def can_lead() -> bool:
        return failed() or agent.role() == "leading" or (agent.role() == "following" and agent.first_in_order())

    while not failed():
        agent.wait(can_lead, "it leads, or is next to lead")
        leader = str(agent.events("joined")[-1]["leader"]) if agent.role() == "following" else ""
        led = [seat for seat in scene.seats if leader.startswith(seat.settings.client_id)]
        if not failed():
            scene.redeploy((led or scene.seats)[0])
            scene.wait_settled()
    _backed_off(agent, scene, Cause.PLANS_FAILED)
    causes = {event["cause"] for event in agent.events("backs-off")}
    assert causes <= {Cause.TOPICS_UNKNOWN.value, Cause.PLANS_FAILED.value}
    assert len(agent.events("fell-back")) == 3
    wait_until(lambda: scene.presence() is None, "the agent has left")
    scene.wait_settled()
    scene.finish()


def _has_joined_since_its_loss(agent: AgentProcess) -> bool:
    names = [event["event"] for event in agent.events()]
    return {"joined", "plan-sent"} & set(names[len(names) - names[::-1].index("membership-lost") :]) != set()


def test_an_agent_that_is_evicted_again_and_again_gives_up(scene: Scene) -> None:
    """An agent whose membership is removed three times backs off."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent()
    scene.join("confluent", A)
    scene.wait_settled()
    client = connect(for_kafka_python({"bootstrap.servers": scene.cluster.bootstrap}))
    try:
        other = Membership(
            client, group=scene.group, settings=LeadingSettings(), assign=lambda _: {}, wake=lambda: None
        )
        for times in (1, 2, 3):
            present = scene.presence()
            assert present is not None
            other.release(present.member_id, AGENT)
            agent.wait(lambda: len(agent.events("membership-lost")) == times, "it is noticed")  # noqa: B023 - waited for here
            if times < 3:
                agent.wait(lambda: _has_joined_since_its_loss(agent), "it is in again")
                wait_until(lambda: scene.describe().state.name == "STABLE", "the group has settled")
    finally:
        close(client)
    _backed_off(agent, scene, Cause.EVICTED)
    assert scene.presence() is None
