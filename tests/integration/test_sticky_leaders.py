"""Java's sticky leaders assign partitions to a member without topics that is the first: the agent never is."""

import pytest

from tests.integration.scenario import INTERLEAVED, Scenario


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
