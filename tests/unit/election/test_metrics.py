"""The election's metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from samerack.election.election import Election, ElectionCollector
from samerack.election.leadership_state import LeadershipState
from samerack.election.messages import Advertisement, Verdict, lead, observe
from samerack.settings.loading import load

SETTINGS = load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}}, environment={})


def shown(election: LeadershipState) -> dict[str, float]:
    """Values by name and label."""
    registry = CollectorRegistry()
    registry.register(ElectionCollector(election))
    return {
        " ".join((sample.name.removeprefix("samerack_"), *sample.labels.values())): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_an_elected_agent_reports_what_it_is_for() -> None:
    """The metrics are the number of agents, the agent's responsibilities, and the hosts whose racks it knows."""
    election = Election(SETTINGS, advertisement=Advertisement(identity="a"))
    election._reader.stop()  # nothing is to be connected
    assert shown(election) == {
        "election_agents": 0,
        "waiting_agents": 0,
        "acts_alone": 0,
        "responsibilities lead": 0,
        "responsibilities observe": 0,
        "known_hosts": 0,
        "elections_total": 0,
    }
    active = frozenset({lead("orders"), lead("payments"), observe("*")})
    election._elected(Verdict(term=1, agents=3, active=active, racks={"10.0.0.1": "a"}), "m")
    election._elected(Verdict(term=2, agents=2, active=active, racks={"10.0.0.1": "a"}), "m")
    assert shown(election) == {
        "election_agents": 2,
        "waiting_agents": 0,
        "acts_alone": 0,
        "responsibilities lead": 2,
        "responsibilities observe": 1,
        "known_hosts": 1,
        "elections_total": 2,
    }


def test_an_agent_that_acts_alone_says_so() -> None:
    """An agent acts alone without an election, and if the brokers refuse it."""
    assert shown(LeadershipState())["acts_alone"] == 1
    election = Election(SETTINGS, advertisement=Advertisement(identity="a"))
    election._refuse("not allowed")
    assert shown(election)["acts_alone"] == 1
