"""Every client applies the plan of its group's leader, also the agent's: eager, cooperative, mixed."""

from itertools import dropwhile

import pytest

from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.group_client import AGENT
from tests.integration.scenario import INTERLEAVED, C, Scenario


def _wait_rounds(agent: AgentProcess, plans: int) -> int:
    """Wait until a rebalance that withheld two partitions has ended; return the number of plans sent so far.

    A member that is slow to revoke a partition, or that starts the second round itself, may cost one more round.
    Earlier plans that withheld nothing belong to the previous rebalance, which the group ended before it was logged.
    """

    def withheld() -> list[int]:
        sent = [event["withheld"] for event in agent.events("plan-sent")][plans:]
        return list(dropwhile(lambda count: count == 0, sent))

    agent.wait(lambda: withheld()[-1:] == [0], "the last round has withheld nothing")
    assert withheld()[0] == 2
    assert len(withheld()) <= 4
    return len(agent.events("plan-sent"))


@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        ("java", "range"),
        ("aiokafka", "range"),
        ("kafka-python", "sticky"),
        ("confluent", "roundrobin"),
    ],
)
def test_an_eager_group_takes_the_plan(scenario: Scenario, client: str, assignor: str) -> None:
    """An agent that waits for an eager group leads from the start, and members apply its plan: all reads in rack."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    scenario.join_each(client, client, client, assignor=assignor)
    scenario.wait_settled(cross_rack=0)
    assert agent.role() == "leading"
    plan = agent.events("plan-sent")[-1]
    assert (plan["assignor"], plan["members"], plan["partitions"]) == ("optimal", 3, 6)
    assert (plan["cross_rack_after"], plan["withheld"]) == (0, 0)
    agent_member = scenario.agent_member()
    assert agent_member is not None
    assert (agent_member.group_instance_id, agent_member.assignment.topic_partitions) == (AGENT, [])
    scenario.finish()


@pytest.mark.parametrize(
    "client",
    [
        "java",
        pytest.param(
            "confluent",
            marks=pytest.mark.promise(
                "A cooperative group moves in two rounds: no partition has two owners, and no record is lost."
            ),
        ),
        "kafka-python",
    ],
)
def test_a_cooperative_group_moves_in_two_rounds(scenario: Scenario, client: str) -> None:
    """Partitions that move are revoked in one round and assigned in the next; no partition has two owners."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    scenario.join_each(client, client, assignor="cooperative-sticky")
    scenario.wait_settled(cross_rack=2)

    plans = len(agent.events("plan-sent"))
    scenario.join(client, C, assignor="cooperative-sticky")
    scenario.wait_settled(cross_rack=0)
    plans = _wait_rounds(agent, plans)
    scenario.swap()
    scenario.wait_settled(cross_rack=0)
    _wait_rounds(agent, plans)
    scenario.check_owned_once()
    scenario.finish()


@pytest.mark.promise(
    "Members of one group on four clients apply the agent's plan: balanced, the fewest reads across racks."
)
def test_languages_mix_in_one_group(scenario: Scenario) -> None:
    """Four different clients in one group apply one plan."""
    scenario.lay_out((*INTERLEAVED, (1,), (2,)))
    agent = scenario.waiting_agent()
    scenario.join_each("java", "confluent", "kafka-python", "aiokafka")
    scenario.wait_led(agent, cross_rack=1)  # rack-b has three partitions, and its one member takes two
    assert agent.events("plan-sent")[-1]["cross_rack_after"] == 1
    assert sorted(map(len, scenario.owned().values())) == [2, 2, 2, 2]
    scenario.finish()
