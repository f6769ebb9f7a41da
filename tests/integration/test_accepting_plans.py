"""Every client applies the plan of its group's leader, also the agent's: eager, cooperative, mixed."""

from itertools import dropwhile

import pytest

from lab.sandbox.agent_process import AgentProcess
from tests.integration.scene import AGENT, INTERLEAVED, A, B, C, Scene


def _wait_rounds(agent: AgentProcess, plans: int) -> int:
    """Waits until a rebalance that withheld two partitions has ended; returns the number of plans sent so far.

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
def test_an_eager_group_takes_the_plan(scene: Scene, client: str, assignor: str) -> None:
    """An agent that waits for an eager group leads from the start, and members apply its plan: all reads in rack."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent()
    for rack in (A, B, C):
        scene.join(client, rack, assignor=assignor)
    scene.wait_settled(cross_rack=0)
    assert agent.role() == "leading"
    plan = agent.events("plan-sent")[-1]
    assert (plan["assignor"], plan["members"], plan["partitions"]) == ("optimal", 3, 6)
    assert (plan["cross_rack_after"], plan["withheld"]) == (0, 0)
    presence = scene.presence()
    assert presence is not None
    assert (presence.group_instance_id, presence.assignment.topic_partitions) == (AGENT, [])
    scene.finish()


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
def test_a_cooperative_group_moves_in_two_rounds(scene: Scene, client: str) -> None:
    """Partitions that move are revoked in one round and assigned in the next; no partition has two owners."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent()
    for rack in (A, B):
        scene.join(client, rack, assignor="cooperative-sticky")
    scene.wait_settled(cross_rack=2)

    plans = len(agent.events("plan-sent"))
    scene.join(client, C, assignor="cooperative-sticky")
    scene.wait_settled(cross_rack=0)
    plans = _wait_rounds(agent, plans)
    scene.admin.move_replicas({(scene.topic, 0): [2], (scene.topic, 1): [1]})
    scene.wait_settled(cross_rack=0)
    _wait_rounds(agent, plans)
    scene.check_owned_once()
    scene.finish()


@pytest.mark.promise(
    "Members of one group on four clients apply the agent's plan: balanced, the fewest reads across racks."
)
def test_languages_mix_in_one_group(scene: Scene) -> None:
    """Four different clients in one group apply one plan."""
    scene.lay_out((*INTERLEAVED, (1,), (2,)))
    agent = scene.waiting_agent()
    for client, rack in (("java", A), ("confluent", B), ("kafka-python", C), ("aiokafka", A)):
        scene.join(client, rack)
    scene.wait_led(agent, cross_rack=1)  # rack-b has three partitions, and its one member takes two
    assert agent.events("plan-sent")[-1]["cross_rack_after"] == 1
    assert sorted(map(len, scene.owned().values())) == [2, 2, 2, 2]
    scene.finish()
