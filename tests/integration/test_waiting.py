"""The agent is in a group only while consumers are: it waits outside, leads from the start, and leaves after them."""

from __future__ import annotations

import pytest

from lab.sandbox.admin import wait_until
from tests.integration.scene import INTERLEAVED, A, B, C, Scene


@pytest.mark.parametrize(
    ("assignor", "clients"),
    [
        pytest.param(
            "range",
            ("java", "confluent", "kafka-python"),
            marks=pytest.mark.promise(
                "Consumers that start in an empty group have their first assignment, generation 1, from the agent."
            ),
        ),
        ("cooperative-sticky", ("java", "confluent", "java")),
    ],
)
def test_the_agent_leads_from_the_first_generation(scene: Scene, assignor: str, clients: tuple[str, ...]) -> None:
    """Consumers that start in an empty group get their first assignment from the agent, eager or cooperative."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent()
    assert scene.presence() is None
    assert agent.get("/readyz")[0] == 200
    for client, rack in zip(clients, (A, B, C), strict=True):
        scene.join(client, rack, assignor=assignor)
    scene.wait_settled(cross_rack=0)
    assert agent.role() == "leading"
    assert agent.events("plan-sent")[0]["generation"] == 1
    assert agent.events("role", now="following") == []
    scene.finish()


@pytest.mark.promise("The agent leaves the group with its last consumer, and leads the next consumers.")
def test_the_agent_leaves_with_the_last_consumer(scene: Scene) -> None:
    """After the last consumer has left, the group is Empty, as without an agent; the agent leads the next ones too."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent()
    for _ in range(2):
        for client, rack in (("confluent", A), ("java", B)):
            scene.join(client, rack)
        scene.wait_led(agent, cross_rack=2)
        for seat in tuple(scene.seats):
            scene.leave(seat)
        wait_until(lambda: scene.describe().state.name == "EMPTY", "the group is empty")
        agent.wait_role("waiting")
