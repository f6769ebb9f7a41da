"""The agent is a guest: where brokers limit the size of groups, it takes no consumer's place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.cluster import Cluster
from lab.sandbox.contract import KafkaCluster
from tests.integration.guest import leave_all, place
from tests.integration.scenario import A, Scenario

pytestmark = [pytest.mark.own_cluster, pytest.mark.extended]

_MAX_SIZE = 3
_REASON = f"group.max.size of the brokers is {_MAX_SIZE}"


@pytest.fixture(scope="module")
def limited_cluster() -> Iterator[KafkaCluster]:
    """One broker with a limit that Java clients reach."""
    with Cluster({1: A}, properties={"group.max.size": str(_MAX_SIZE)}) as cluster:
        yield cluster


@pytest.fixture
def cluster(limited_cluster: KafkaCluster) -> KafkaCluster:
    """The broker with a limit."""
    return limited_cluster


def _fill(scenario: Scenario, agent: AgentProcess) -> None:
    """Start as many consumers as the brokers allow; all get partitions, and the agent says why it is outside."""
    while len(scenario.participants) < _MAX_SIZE:
        scenario.join("java", A)
    scenario.wait_settled()
    agent.wait_role("observing")
    assert all(one.member.owned for one in scenario.participants)
    status, page = agent.get("/readyz")
    assert (status, _REASON in page) == (200, True), page


@pytest.mark.promise("No consumer is refused because an agent has its place in a group of limited size.")
def test_every_consumer_has_its_place_where_brokers_limit_groups(scenario: Scenario) -> None:
    """Consumers of a full group are there from birth, twice, and each comes back after a restart."""
    place(scenario, 2 * _MAX_SIZE)
    agent = scenario.waiting_agent()
    _fill(scenario, agent)
    for one in tuple(scenario.participants):
        scenario.redeploy(one)
        scenario.wait_settled()
    leave_all(scenario)
    agent.wait_role("waiting")
    _fill(scenario, agent)


def test_an_agent_makes_room_for_consumers_that_come(scenario: Scenario) -> None:
    """It is in the group of one consumer, leaves as the second comes, and the third has its place."""
    place(scenario, 2 * _MAX_SIZE)
    agent = scenario.waiting_agent()
    scenario.join("java", A)
    agent.wait_inside()
    scenario.join("java", A)
    agent.wait_role("observing")
    assert scenario.agent_member() is None
    _fill(scenario, agent)
