"""Groups that the agent leaves alone: where each rebalance is a long pause, and where following does harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.values import Subscription
from tests.integration.raw_member import RawMember
from tests.integration.scenario import INTERLEAVED, Scenario, holds_for

_STAYS_SECONDS = 15.0
_EVENTS = 6
"""What a rebalance of three members is: each gives its partitions back, and gets some."""


def test_a_group_whose_members_are_busy_is_not_rebalanced_for_racks(scenario: Scenario) -> None:
    """Members that work for seconds on each poll join late: the decision says so, and the group reads on as it is."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent(policy__max_pause_seconds=0.5)
    scenario.join_each("kafka-python", "kafka-python", "kafka-python", busy_seconds="8")
    scenario.wait_led(agent, cross_rack=0)
    scenario.redeploy(scenario.participants[0])
    scenario.wait_settled(cross_rack=0)
    rebalances = scenario.rebalances()
    scenario.swap()
    agent.wait(
        lambda: bool(agent.events("decision", reason="pause-too-long")), "the decision has the pause as its reason"
    )
    assert agent.events("decision", reason="pause-too-long")[-1]["expected_pause_seconds"] > 0.5
    assert holds_for(_STAYS_SECONDS, lambda: scenario.rebalances() == rebalances)
    scenario.finish()


@pytest.mark.promise(
    "Members to which an error of JoinGroup is fatal end at the agent's eviction once, and then read beside it."
)
def test_members_to_which_an_error_of_join_group_is_fatal_are_evicted_once(scenario: Scenario, tmp_path: Path) -> None:
    """As members of samsa and kafka_ex: evicted at their birth they end, and whoever starts them again sees them read.

    The group is then joined as a running one; born again, for another process of the agent too, nobody is evicted.
    """
    scenario.lay_out(INTERLEAVED)
    path = str(tmp_path / "events.jsonl")
    first = scenario.waiting_agent(events__path=path)
    members = [_ends_at_errors(scenario) for _ in range(2)]
    first.wait(lambda: any(one.has_ended for one in members), "the agent has evicted a member that may lead")
    first.wait(lambda: bool(first.events("eviction-fatal")), "it has seen that the member did not come back")
    members = [_ends_at_errors(scenario) if one.has_ended else one for one in members]
    _wait_read(scenario, first, members)
    for one in members:
        one.stop()
    first.wait_role("waiting")
    first.stop()
    second = scenario.waiting_agent(events__path=path)
    members = [_ends_at_errors(scenario) for _ in range(2)]
    _wait_read(scenario, second, members)
    assert second.events("evicted-while-forming") == []
    if second.role() == "following":
        assert f"samerack resume {scenario.group}" in second.get("/readyz")[1]
    for one in members:
        one.stop()


def _ends_at_errors(scenario: Scenario) -> RawMember:
    return RawMember(
        scenario.cluster.bootstrap,
        group=scenario.group,
        metadata=encode_subscription(Subscription(version=3, topics=(scenario.topic,))),
        deals=tuple((scenario.topic, number) for number in range(len(INTERLEAVED))),
        ends_at_errors=True,
    )


def _wait_read(scenario: Scenario, agent: AgentProcess, members: list[RawMember]) -> None:
    """Wait until each member has its half, beside the agent, and none has ended."""
    agent.wait_inside()
    wait_until(lambda: [len(one.assigned) for one in members] == [len(INTERLEAVED) // 2] * 2, "both have their half")
    assert not any(one.has_ended for one in members)
    assert scenario.agent_member() is not None


def test_a_leader_that_deals_to_everyone_is_left_at_once(scenario: Scenario) -> None:
    """It gave the agent partitions in six generations within six seconds: after one gift the agent stays out.

    From their first generation on the agent leads the same members without harm.
    """
    scenario.lay_out(INTERLEAVED)
    scenario.join_each("kafka-python", "kafka-python", "kafka-python", assignor="roundrobin-to-everyone")
    scenario.wait_settled()
    before = scenario.rebalances()
    agent = scenario.agent(leading__allow_roundrobin_v0=True)
    agent.wait(lambda: bool(agent.events("backs-off")), "it has left")
    agent.wait_role("observing")
    scenario.wait_settled()
    assert scenario.agent_member() is None
    after = scenario.rebalances()
    assert after <= before + _EVENTS * 2, "it came, and it left"
    assert holds_for(_STAYS_SECONDS, lambda: scenario.agent_member() is None and scenario.rebalances() == after)
    scenario.leave_all()
    agent.wait_role("waiting")
    scenario.join_each("kafka-python", "kafka-python", "kafka-python", assignor="roundrobin-to-everyone")
    scenario.wait_led(agent, cross_rack=0)
    scenario.finish()
