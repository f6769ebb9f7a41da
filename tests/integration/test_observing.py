"""Groups that the agent must not join: it reports why, and observes without an effect on the group."""

import json
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from tests.integration.scenario import INTERLEAVED, Scenario, holds_for


class Homegrown(RangePartitionAssignor):  # type: ignore[misc]  # kafka-python is untyped
    """An assignor with a name that no other client knows."""

    name = "homegrown"


@pytest.fixture
def homegrown(scenario: Scenario) -> Iterator[KafkaConsumer]:
    """A member of the group that offers only its own protocol."""
    consumer = KafkaConsumer(
        scenario.topic,
        bootstrap_servers=scenario.cluster.bootstrap.split(","),
        group_id=scenario.group,
        partition_assignment_strategy=[Homegrown],
        metadata_max_age_ms=1000,  # it may ask a broker that does not know the topic yet
    )
    yield consumer
    consumer.close()


def _observed(agent: AgentProcess, scenario: Scenario) -> str:
    """The agent's reason; asserts that it is reported once, and that the group has no rebalance."""
    agent.wait_role("observing")
    before = scenario.rebalances()
    assert holds_for(2.0, lambda: scenario.agent_member() is None and scenario.rebalances() == before)
    (event,) = agent.events("observing")
    assert agent.events("joined") == agent.events("plan-sent") == []
    reason = str(event["reason"])
    status, page = agent.get("/readyz")
    assert status == 503
    assert json.loads(page)["wrong"] == {f"group {scenario.group}": f"observing: {reason}"}
    refused = agent.json("/v1/events?kind=role")["events"][0]
    assert (refused["action"], refused["detail"]) == ("observing", reason)
    return reason


@pytest.mark.promise("A group that shares no assignor with the agent is only observed.")
def test_a_group_with_an_unknown_protocol_is_observed(scenario: Scenario, homegrown: KafkaConsumer) -> None:
    """A group that shares no protocol with the agent would refuse it, so the agent only observes it."""
    scenario.lay_out(INTERLEAVED)
    # kafka-python forgets a join that ends between two polls, so polls have to be longer than a join
    wait_until(lambda: bool(homegrown.poll(timeout_ms=5000)), "the member reads")
    assert _observed(scenario.agent(), scenario) == (
        "its members chose protocol 'homegrown', which the agent does not offer"
    )
