"""Groups that match a pattern are led as named ones are, from their birth on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from confluent_kafka import Consumer

from lab.sandbox.admin import wait_until
from lab.sandbox.contract import RACKS
from tests.gate import busy
from tests.integration.guest import set_offsets
from tests.integration.scenario import INTERLEAVED, Scenario, holds_for


def test_groups_of_a_pattern_are_led_and_handed_over(scenario: Scenario, other: Scenario) -> None:
    """Of two groups without consumers one is left out; the other is led from its first generation, and handed over."""
    groups = (f"{scenario.group[:-2]}*", f"{other.group[:-2]}*", f"!{other.group}")
    election = f"samerack-{scenario.group}"
    agents = [scenario.agent(groups=groups, election__group=election) for _ in range(2)]
    for agent in agents:
        agent.wait(lambda agent=agent: bool(agent.events("elected")), "it is elected")  # type: ignore[misc]
        assert agent.roles() == {}
    for one in (scenario, other):
        one.lay_out(INTERLEAVED)
        set_offsets(one, [0] * len(INTERLEAVED))  # so that the group exists
    wait_until(lambda: {agent.role(scenario.group) for agent in agents} == {"waiting", "standby"}, "both have found it")
    active, standby = sorted(agents, key=lambda agent: agent.role(scenario.group), reverse=True)
    for one in (scenario, other):
        one.join_each("java", "confluent", "aiokafka")
        one.wait_settled()
    active.wait_role("leading", scenario.group)
    scenario.wait_settled(cross_rack=0)
    before = scenario.rebalances()
    active.stop()
    standby.wait_role("leading", scenario.group)
    assert holds_for(2.0, lambda: scenario.rebalances() == before)
    assert set(standby.roles()) == {scenario.group}
    assert other.agent_member() is None
    scenario.finish()
    other.finish()


_GROUPS: Final = 100
_START_SECONDS: Final = 60.0


@pytest.mark.alone
@pytest.mark.parametrize("loops", [0, 2])
def test_a_hundred_groups_of_a_pattern_are_led_from_the_first_generation(scenario: Scenario, loops: int) -> None:
    """They are born within a minute, with three members each, also beside busy loops."""
    scenario.admin.create_topic(scenario.topic, [(1,), (2,), (3,)])
    groups = [f"{scenario.group}-{number:03}" for number in range(_GROUPS)]
    agent = scenario.agent(groups=[f"{scenario.group}-*"], election__group=f"samerack-{scenario.group}")
    agent.wait(lambda: bool(agent.events("pattern-matches-no-group")), "all groups are listed")
    agent.wait(lambda: bool(agent.events("elected")), "its first election, which itself takes a birth, is over")
    with busy(loops), _members(scenario) as members:
        begun = time.monotonic()
        for number, group in enumerate(groups):
            time.sleep(max(0.0, begun + number * _START_SECONDS / _GROUPS - time.monotonic()))
            _start(members, scenario, group)
        wait_until(lambda: all(len(one.assignment()) == 1 for one in members), "each member has its partition")
        agent.wait(lambda: {*agent.roles().values()} <= {"leading", "following"}, "the agent is in all groups")
        late = sorted({*groups} - {one["group"] for one in agent.events("plan-sent", generation=1)})
        assert not late, f"{len(late)} groups were not led from their birth: {late}"


@contextmanager
def _members(scenario: Scenario) -> Iterator[list[Consumer]]:
    """Consumers to add to, which one thread polls, since hundreds of processes would be the load."""
    members: list[Consumer] = []
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(0.05):
            for one in tuple(members):
                one.poll(0)

    thread = threading.Thread(target=poll, name=f"members of {scenario.group}")
    thread.start()
    try:
        yield members
    finally:
        ended.set()
        thread.join()
        closing = [threading.Thread(target=one.close) for one in members]
        for one in closing:
            one.start()
        for one in closing:
            one.join()


def _start(members: list[Consumer], scenario: Scenario, group: str) -> None:
    """Start a group's three members, one in each rack; what they read does not count."""
    for rack in filter(None, RACKS.values()):
        one = Consumer(
            {
                "bootstrap.servers": scenario.cluster.bootstrap,
                "group.id": group,
                "client.id": f"member-{rack}",
                "client.rack": rack,
                "partition.assignment.strategy": "range",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20_000,
                "log_level": 0,
            }
        )
        one.subscribe([scenario.topic])
        members.append(one)
