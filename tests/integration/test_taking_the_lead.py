"""An agent that joins a running group gets no partition from its leader, and leads it later without an eviction."""

import pytest

from tests.integration.scenario import INTERLEAVED, Scenario

_MAX_DEPLOYS = 10
"""Another member may be first in the order until it is restarted itself; in a cooperative group the agent keeps its
place, and new members may come before it."""


@pytest.mark.parametrize(
    ("assignor", "clients"),
    [
        pytest.param(
            "range",
            ("java", "confluent", "aiokafka"),
            marks=pytest.mark.promise(
                "An agent that joins a running group leads it after rolling restarts, without an eviction."
            ),
        ),
        ("cooperative-sticky", ("java", "confluent", "java")),
    ],
)
def test_a_deploy_hands_over_the_lead(scenario: Scenario, assignor: str, clients: tuple[str, ...]) -> None:
    """The agent takes the first place, and leads after rolling restarts; no record is lost or read twice."""
    scenario.lay_out(INTERLEAVED)
    scenario.join_each(*clients, assignor=assignor)
    scenario.wait_settled()
    agent = scenario.agent(leading__position_retry_seconds=1)
    agent.wait_role("following")
    scenario.wait_settled()
    deploys = 0
    while agent.role() != "leading":
        assert deploys < _MAX_DEPLOYS
        deploys += 1
        agent.reaches(agent.first_in_order, seconds=5)
        for one in tuple(scenario.participants):
            scenario.redeploy(one)
            scenario.wait_settled()
    print(f"led after {deploys} deploys")  # noqa: T201 - pytest -rP shows the measurement
    scenario.wait_settled(cross_rack=0)
    scenario.check_owned_once()
    scenario.finish()


@pytest.mark.parametrize(
    "assignor",
    [
        pytest.param(
            "sticky",
            marks=pytest.mark.promise("A sticky leader of Java gives no partition to an agent that joins its group."),
        ),
        "cooperative-sticky",
    ],
)
def test_a_sticky_leader_gives_the_agent_nothing(scenario: Scenario, assignor: str) -> None:
    """An agent that joins a running sticky group chooses its place before, and gets no partition."""
    scenario.lay_out(INTERLEAVED)
    scenario.join_each("java", "java", "java", assignor=assignor)
    scenario.wait_settled()
    with scenario.agent() as agent:
        agent.wait_role("following")
        scenario.wait_settled()
        (present,) = [member for member in scenario.describe().members if member.client_id == "samerack"]
        assert present.group_instance_id is None
        assert not present.assignment.topic_partitions
        assert agent.events("position-chosen")
        assert not agent.events("returns-partitions")
    scenario.wait_settled()
    scenario.check_owned_once()
    scenario.finish()
