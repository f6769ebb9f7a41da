"""Groups that the agent leaves alone: where each rebalance is a long pause, and where following does harm."""

from __future__ import annotations

from tests.integration.scene import INTERLEAVED, A, B, C, Scene, holds_for

_STAYS_SECONDS = 15.0
_EVENTS = 6
"""What a rebalance of three members is: each gives its partitions back, and gets some."""


def test_a_group_whose_members_are_busy_is_not_rebalanced_for_racks(scene: Scene) -> None:
    """Members that work for seconds on each poll join late: the decision says so, and the group reads on as it is."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent(policy__max_pause_seconds=0.5)
    for rack in (A, B, C):
        scene.join("kafka-python", rack, busy_seconds="8")
    scene.wait_led(agent, cross_rack=0)
    scene.redeploy(scene.seats[0])
    scene.wait_settled(cross_rack=0)
    rebalances = scene.rebalances()
    first, second = (scene.admin.replicas([scene.topic])[scene.topic, number].replicas for number in (0, 1))
    scene.admin.move_replicas({(scene.topic, 0): second, (scene.topic, 1): first})
    agent.wait(
        lambda: bool(agent.events("decision", reason="pause-too-long")), "the decision has the pause as its reason"
    )
    assert agent.events("decision", reason="pause-too-long")[-1]["expected_pause_seconds"] > 0.5
    assert holds_for(_STAYS_SECONDS, lambda: scene.rebalances() == rebalances)
    scene.finish()


def test_a_leader_that_deals_to_everyone_is_left_at_once(scene: Scene) -> None:
    """It gave the agent partitions in six generations within six seconds: after one gift the agent stays out.

    From their first generation on the agent leads the same members without harm.
    """
    scene.lay_out(INTERLEAVED)
    for rack in (A, B, C):
        scene.join("kafka-python", rack, assignor="roundrobin-to-everyone")
    scene.wait_settled()
    before = scene.rebalances()
    agent = scene.agent(leading__allow_roundrobin_v0=True)
    agent.wait(lambda: bool(agent.events("backs-off")), "it has left")
    agent.wait_role("observing")
    scene.wait_settled()
    assert scene.presence() is None
    after = scene.rebalances()
    assert after <= before + _EVENTS * 2, "it came, and it left"
    assert holds_for(_STAYS_SECONDS, lambda: scene.presence() is None and scene.rebalances() == after)
    stopped = list(scene.seats)
    for seat in stopped:
        scene.leave(seat)
    agent.wait_role("waiting")
    for seat in stopped:
        scene.join("kafka-python", seat.rack, assignor="roundrobin-to-everyone")
    scene.wait_led(agent, cross_rack=0)
    scene.finish()
