"""Metrics of the election: how many agents there are, whether this one takes part, and what it is active for.

They are read from the election at each scrape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from samerack.election.election import Election
from samerack.election.messages import led_by, observed_by

_KINDS: Final = {"lead": led_by, "observe": observed_by}


class ElectionCollector(Collector):
    """The election's metric families; without an election they only show that the agent is alone."""

    def __init__(self, election: Election | None) -> None:
        self._election = election

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        election = self._election
        yield GaugeMetricFamily(
            "samerack_election_agents",
            "Agents in the last election; 0 if this agent took no part.",
            value=election.agents if election is not None else 0,
        )
        yield GaugeMetricFamily(
            "samerack_waiting_agents",
            "Agents that wait outside the election.",
            value=election.waiting_agents if election is not None else 0,
        )
        yield GaugeMetricFamily(
            "samerack_acts_alone",
            "1 while this agent acts alone: without election.group, or without READ on it.",
            value=float(election is None or bool(election.refused)),
        )
        responsibilities = GaugeMetricFamily(
            "samerack_responsibilities",
            "Groups to lead and patterns to observe for which this agent is active.",
            labels=["kind"],
        )
        for kind, of in _KINDS.items():
            responsibilities.add_metric([kind], len(of(election.held)) if election is not None else 0)
        yield responsibilities
        yield GaugeMetricFamily(
            "samerack_known_hosts",
            "Addresses of hosts whose rack other agents report.",
            value=len(election.racks) if election is not None else 0,
        )
        yield CounterMetricFamily(
            "samerack_elections",
            "Elections that this agent took part in.",
            value=election.elections if election is not None else 0,
        )
