"""The input of the checks of `samerack verify`: a snapshot of measured traffic, its report, and figures of both.

The figures are what a group reads across racks now, how much of that a better plan avoids, and what that costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from samerack.common.money import per_month
from samerack.reporting.costs import broker_racks
from samerack.reporting.report import GroupCost, Report
from samerack.reporting.serving import ServedElsewhere, served_elsewhere
from samerack.settings.leading import LeadingSettings
from samerack.traffic.snapshot import UNPLANNED_KINDS, GroupTraffic, TrafficSnapshot

MeasuredBy: TypeAlias = Literal["command", "leading-agent", "observing-agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsPlanning:
    """How the agent plans a Kafka Streams application: assignor, strategy, and whether by partitions or bytes."""

    assignor: str
    strategy: str
    weights: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The input of the checks; the agent's rack is "" if unknown.

    `by` is who measured: a command, an agent that leads the groups of its settings, or one that leads none.
    `max_group_size` is `group.max.size` of the brokers; None if it is not known. `streams_plans` are the Kafka Streams
    applications whose tasks this agent plans.
    """

    snapshot: TrafficSnapshot
    report: Report
    leading: LeadingSettings
    own_rack: str = ""
    by: MeasuredBy = "command"
    max_group_size: int | None = None
    streams_plans: Mapping[str, StreamsPlanning] = field(default_factory=dict)

    @property
    def pairs(self) -> Iterator[tuple[GroupTraffic, GroupCost]]:
        """Each group that has members and reads topics, with its cost."""
        costs: Mapping[str, GroupCost] = {cost.group: cost for cost in self.report.groups}
        return (
            (group, costs[group.group])
            for group in self.snapshot.groups
            if group.members and group.kind not in UNPLANNED_KINDS
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
        """Whether the rack of every broker that has a replica is known."""
        return self.snapshot.cluster.racks.complete


def in_group(group: GroupTraffic) -> str:
    """Return the name of a group in findings."""
    return f"group {group.group}"


def dollars_per_month(evidence: Evidence, crossing_bytes: float) -> float | None:
    """Return the dollars per month for so many bytes in the window; None before a measurement."""
    return per_month(evidence.report.prices.dollars(crossing_bytes), evidence.snapshot.window_seconds)
