"""More agents than `ROOM` in the election: agents that wait outside, and what the others know of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import pytest

from lab.sandbox.admin import wait_until
from samerack.election.election import Election
from samerack.election.member import ROOM
from samerack.election.messages import Advertisement, lead
from samerack.settings.all_settings import Settings
from samerack.settings.loading import load
from tests.integration.cluster import ContainerCluster
from tests.integration.scenario import holds_for

_ORDERS: Final = lead("orders")


@pytest.fixture
def settings(cluster: ContainerCluster) -> Settings:
    """Settings of agents with a separate election."""
    given = {"kafka": {"bootstrap.servers": cluster.bootstrap}, "election": {"group": f"samerack-{uuid4().hex}"}}
    return load(flags=given, environment={})


@contextmanager
def _running(*agents: Election) -> Iterator[tuple[Election, ...]]:
    for agent in agents:
        agent.start()
    try:
        yield agents
    finally:
        for agent in agents:
            agent.stop()
        for agent in agents:
            agent.join(10)


def _agent(settings: Settings, number: int, *responsibilities: str) -> Election:
    advertisement = Advertisement(
        identity=f"agent-{number}", rack="rack-a", addresses=(f"10.0.0.{number}",), responsibilities=responsibilities
    )
    return Election(settings, advertisement=advertisement)


def _takes_part(agent: Election) -> bool:
    return agent.agents > 0


@contextmanager
def _full(settings: Settings) -> Iterator[list[Election]]:
    """A full election: three agents for orders, the first of them active, and others that lead no group."""
    with _running(_agent(settings, 1, _ORDERS)) as (first,):
        wait_until(lambda: first.is_active(_ORDERS), "the first is active")
        others = [_agent(settings, number, *((_ORDERS,) if number <= 3 else ())) for number in range(2, ROOM + 1)]
        with _running(*others):
            wait_until(lambda: all(map(_takes_part, others)), "everybody takes part")
            yield [first, *others]


@pytest.mark.timeout(180)
def test_who_is_not_needed_waits_outside_until_it_is(settings: Settings) -> None:
    """A waiting agent starts no election, the active agent knows its rack, and it replaces an agent that ends."""
    with _full(settings) as inside:
        first = inside[0]
        wait_until(lambda: first.agents == ROOM, "the first knows of all")
        term = first.term
        with _running(_agent(settings, 101, _ORDERS), _agent(settings, 102)) as (able, unable):
            wait_until(lambda: able.is_outside and unable.is_outside, "both wait outside")
            wait_until(
                lambda: {"10.0.0.101", "10.0.0.102"} <= first.racks.keys(), "the first knows their racks", timeout=60
            )
            assert len(first.racks) == ROOM + 2
            assert first.waiting_agents == 2
            assert (first.term, able.held, unable.tenures.held) == (term, frozenset(), {})
            first.stop()
            first.join(10)
            wait_until(lambda: any(agent.is_active(_ORDERS) for agent in inside[1:]), "another is active")
            following = [agent for agent in inside[1:] if agent.is_active(_ORDERS)]
            wait_until(lambda: len(following[0].racks) >= ROOM + 1, "it knows all racks", timeout=30)
            wait_until(lambda: _takes_part(able) or _takes_part(unable), "one comes in", timeout=90)


@pytest.mark.timeout(120)
def test_of_two_with_one_identity_one_gives_up(settings: Settings) -> None:
    """The earlier agent becomes inactive at once, reports why, and is active again when the later one ends."""
    with _running(_agent(settings, 1, _ORDERS)) as (first,):
        wait_until(lambda: first.is_active(_ORDERS), "the first is active")
        with _running(_agent(settings, 1, _ORDERS)) as (second,):
            wait_until(lambda: second.is_active(_ORDERS), "the second is active")
            wait_until(lambda: not first.is_active(_ORDERS), "the first is not", timeout=5)
            assert first.trouble == "fenced: another agent has the election.identity 'agent-1'"
            assert not first.tenures.held
            assert first.racks == {}
            assert holds_for(12.0, lambda: second.is_active(_ORDERS) and not first.is_active(_ORDERS))
            second.stop()
            wait_until(lambda: first.is_active(_ORDERS), "the first is active again", timeout=30)
            assert first.trouble == ""
