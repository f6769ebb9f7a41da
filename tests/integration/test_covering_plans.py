"""On real brokers a plan covers every member and every topic that they read; else the agent leaves and logs why."""

from __future__ import annotations

import json

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from samerack.agent.policy.back_off_causes import Cause
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.values import Subscription
from tests.integration.raw_member import RawMember
from tests.integration.scenario import INTERLEAVED, A, Scenario, holds_for


def _early(scenario: Scenario) -> AgentProcess:
    """Start an agent before the group has members, and wait until it leads or waits for them."""
    agent = scenario.agent()
    agent.wait(lambda: agent.role() in ("leading", "waiting"), "the agent is there before the members")
    return agent


def _kafka_go(topic: str) -> bytes:
    """The subscription of a member of segmentio/kafka-go 0.4 with default settings."""
    return bytes.fromhex("000100000001") + len(topic).to_bytes(2, "big") + topic.encode() + bytes.fromhex("ffffffff")


@pytest.mark.promise("Members whose subscription ends early, as kafka-go's does, get their partitions.")
def test_members_of_kafka_go_get_every_partition(scenario: Scenario) -> None:
    """Members whose subscription says version 1 but ends like version 0 get partitions like all others."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    with (
        RawMember(scenario.cluster.bootstrap, group=scenario.group, metadata=_kafka_go(scenario.topic)) as first,
        RawMember(scenario.cluster.bootstrap, group=scenario.group, metadata=_kafka_go(scenario.topic)) as second,
    ):
        everything = frozenset((scenario.topic, number) for number in range(len(INTERLEAVED)))
        wait_until(
            lambda: first.assigned | second.assigned == everything and len(first.assigned) == len(second.assigned) == 3,
            "both have their half",
        )
        agent.wait_role("leading")
        assert agent.events("backs-off") == []
        first.stop()
        wait_until(lambda: second.assigned == everything, "the other has what the first had")


@pytest.mark.promise(
    "The agent leaves a group with a member that it cannot read, says why, and comes back when that member has gone."
)
def test_a_member_that_cannot_be_read_is_left_to_its_group(scenario: Scenario) -> None:
    """The agent leaves to a more lenient leader, logs which member's subscription is invalid, and later rejoins."""
    scenario.lay_out(INTERLEAVED)
    agent = _early(scenario)
    scenario.join("confluent", A)
    scenario.wait_settled()
    agent.wait_role("leading")
    odd = encode_subscription(Subscription(version=0, topics=(scenario.topic,)))
    odd = odd[:2] + bytes.fromhex("00000002") + odd[6:-4] + bytes.fromhex("0002fffe") + odd[-4:]  # a name not in UTF-8
    everything = tuple((scenario.topic, number) for number in range(len(INTERLEAVED)))
    with RawMember(scenario.cluster.bootstrap, group=scenario.group, metadata=odd, deals=everything) as unreadable:
        agent.wait(lambda: bool(agent.events("backs-off", cause=Cause.UNREADABLE.value)), "it backs off")
        reason = agent.events("backs-off")[0]["reason"]
        assert "subscription: topics[1]" in reason
        assert unreadable.member_id in reason
        wait_until(
            lambda: (
                len(unreadable.assigned) == len(INTERLEAVED) / 2
                and unreadable.assigned | scenario.participants[0].member.owned == frozenset(everything)
            ),
            "the group leads itself, and both have their half",
        )
        wait_until(lambda: scenario.agent_member() is None, "the agent has left")
        status, page = agent.get("/readyz")
        assert (status, unreadable.member_id in page) == (503, True), json.loads(page)
        pause = agent.events("backs-off")[0]["seconds"]
        assert holds_for(pause + 1, lambda: scenario.agent_member() is None)
    agent.wait_inside()
    scenario.wait_settled()
    scenario.finish()
