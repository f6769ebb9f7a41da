"""The input of the checks of `samerack verify`: a snapshot of measured traffic, its report, and figures of both.

The figures are what a group reads across racks now, how much of that a better plan avoids, and what that costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from samerack.agent.reporting.costs import broker_racks
from samerack.agent.reporting.report import GroupCost, Report
from samerack.agent.reporting.shares import avoidable_share
from samerack.common.money import SECONDS_PER_MONTH
from samerack.common.settings import LeadingSettings
from samerack.traffic.model import GroupTraffic, TrafficSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The input of the checks: the snapshot, its report, the settings to lead, and the agent's rack ("": unknown)."""

    snapshot: TrafficSnapshot
    report: Report
    leading: LeadingSettings
    own_rack: str = ""

    @property
    def pairs(self) -> Iterator[tuple[GroupTraffic, GroupCost]]:
        """Each group that has members, with its cost."""
        costs: Mapping[str, GroupCost] = {cost.group: cost for cost in self.report.groups}
        return ((group, costs[group.group]) for group in self.snapshot.groups if group.members)

    @property
    def racks(self) -> tuple[str, ...]:
        """The racks of the brokers."""
        return broker_racks(self.snapshot)

    @property
    def racks_complete(self) -> bool:
        """Whether the rack of every broker that has a replica is known: all brokers are present and have a rack."""
        cluster = self.snapshot.cluster
        placed = {broker for topic in cluster.topics.values() for partition in topic for broker in partition.replicas}
        return all(isinstance(cluster.brokers.get(broker), str) for broker in placed | cluster.brokers.keys())


def in_group(group: GroupTraffic) -> str:
    """Returns the name of a group in findings."""
    return f"group {group.group}"


def avoidable_dollars(evidence: Evidence, group: GroupTraffic, cost: GroupCost) -> float | None:
    """Returns the dollars per month of the bytes that cross racks beyond the best plan; None before a measurement."""
    return dollars_per_month(evidence, (avoidable_share(group) or 0.0) * (cost.wire_bytes - cost.unknown_bytes))


def dollars_per_month(evidence: Evidence, crossing_bytes: float) -> float | None:
    """Returns the dollars per month for so many bytes in the window; None before a measurement."""
    window = evidence.snapshot.window_seconds
    return evidence.report.prices.dollars(crossing_bytes) / window * SECONDS_PER_MONTH if window > 0 else None
