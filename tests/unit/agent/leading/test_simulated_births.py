"""A group forms while the agent waits: whenever members join, the agent leads generation 1."""

from __future__ import annotations

import pytest

from tests.simulator.agent import simulated
from tests.simulator.group import AGENTS, State
from tests.simulator.world import Setting, World

SECOND_JOINS_AFTER_MS = range(600, 800, 20)
"""The times include the agent's JoinGroup, its first poll and its eviction."""


def test_a_member_that_comes_between_a_look_and_an_eviction_does_not_lead() -> None:
    """A poll from before the agent's wait in JoinGroup missed it: three such in a row, and the agent followed."""
    leaders = {}
    with simulated():
        for milliseconds in SECOND_JOINS_AFTER_MS:
            world = World(Setting(seed=1, initial_delay_ms=3000))
            try:
                world.start_agent(0)
                world.settle()
                world.join("java", "a")
                world.wait(milliseconds)
                world.join("kafka-python", "b")
                world.wait(7000)
                group = world.coordinator.group
                assert group is not None
                leader = next((one.client_id for one in group.members if one.id == group.leader), None)
                leaders[milliseconds] = (group.generation, leader)
            finally:
                world.close()
    assert leaders == dict.fromkeys(SECOND_JOINS_AFTER_MS, (1, AGENTS))


@pytest.mark.parametrize("clients", ["any", "kafka-go"])
def test_clients_that_pause_after_a_failed_join_get_their_partitions_in_time(clients: str) -> None:
    """kafka-go waits for five seconds: evicted at once, its members joined in a third delay of the coordinator.

    Meanwhile the agent is alone, and the group must not be Stable: offsets would expire by their own age.
    """
    seconds = {}
    with simulated():
        for agents in (0, 1):
            world = World(Setting(seed=1, initial_delay_ms=3000, clients=clients))
            try:
                for number in range(agents):
                    world.start_agent(number)
                world.settle()
                began = world.timeline.now
                for rack in "abc":
                    world.join("java", rack)
                while not all(one.owned for one in world.consumers):
                    world.wait(10)
                    group = world.coordinator.group
                    assert group is None or group.state is not State.STABLE or len(group.members) > 1
                seconds[agents] = (world.timeline.now - began) / 1000
                assert [one.leading for one in world.consumers].count(True) == 1 - agents
            finally:
                world.close()
    assert seconds[1] - seconds[0] <= 1.0
