"""The input of the checks of `samerack verify`: a snapshot of measured traffic, its report, and figures of both.

The figures are what a group reads across racks now, how much of that a better plan avoids, and what that costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from samerack.common.money import SECONDS_PER_MONTH
from samerack.common.settings import LeadingSettings
from samerack.reporting.costs import broker_racks
from samerack.reporting.report import GroupCost, Report
from samerack.reporting.serving import ServedElsewhere, served_elsewhere
from samerack.reporting.shares import MIN_SHARE, avoidable_share, is_by_bytes, present_share
from samerack.traffic.model import GroupTraffic, TrafficSnapshot


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The input of the checks: the snapshot, its report, the settings to lead, and the agent's rack ("": unknown)."""

    snapshot: TrafficSnapshot
    report: Report
    leading: LeadingSettings
    own_rack: str = ""

    @property
    def pairs(self) -> Iterator[tuple[GroupTraffic, GroupCost]]:
        """Each group that has members and reads topics, with its cost."""
        costs: Mapping[str, GroupCost] = {cost.group: cost for cost in self.report.groups}
        return (
            (group, costs[group.group]) for group in self.snapshot.groups if group.members and group.kind != "other"
        )

    @cached_property
    def elsewhere(self) -> Mapping[str, ServedElsewhere]:
        """By group what other racks serve without need; several checks ask for it."""
        found = ((group.group, served_elsewhere(self.snapshot, group)) for group, _ in self.pairs)
        return {group: served for group, served in found if served is not None}

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


def avoidable_by_plans(evidence: Evidence, group: GroupTraffic) -> float | None:
    """Returns the share that better plans avoid; None if it is at most MIN_SHARE or not known.

    What other racks serve although a replica in the member's could do it, no plan avoids: it is another finding.
    """
    share, elsewhere = avoidable_share(group), evidence.elsewhere.get(group.group)
    if share is None or elsewhere is None:
        return share
    share -= elsewhere.share if is_by_bytes(group) else elsewhere.partitions_share
    return share if share > MIN_SHARE else None


def avoidable_dollars(evidence: Evidence, group: GroupTraffic, cost: GroupCost) -> float | None:
    """Returns the dollars per month of the bytes that cross racks beyond the best plan; None if none do."""
    share = avoidable_by_plans(evidence, group)
    return None if share is None else dollars_per_month(evidence, share * (cost.wire_bytes - cost.unknown_bytes))


def all_avoidable_dollars(evidence: Evidence) -> float | None:
    """Returns their sum over all groups; None if the share of no group is known."""
    if all(group.shares.optimal is None or present_share(group) is None for group, _ in evidence.pairs):
        return None
    return sum(avoidable_dollars(evidence, group, cost) or 0.0 for group, cost in evidence.pairs)


def dollars_per_month(evidence: Evidence, crossing_bytes: float) -> float | None:
    """Returns the dollars per month for so many bytes in the window; None before a measurement."""
    window = evidence.snapshot.window_seconds
    return evidence.report.prices.dollars(crossing_bytes) / window * SECONDS_PER_MONTH if window > 0 else None
