"""Computes the report from a snapshot and prices: which group read how much across racks, from where, and its cost.

Pure: the same snapshot gives the same report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from samerack.agent.reporting.baseline import own_share
from samerack.agent.reporting.report import GroupCost, PairCost, Report, TopicCost
from samerack.common.money import SECONDS_PER_MONTH, PriceTable
from samerack.common.records import LEADING
from samerack.traffic.model import Flow, GroupTraffic, TrafficSnapshot

_Key = TypeVar("_Key")


@dataclass(slots=True)
class Sum:
    """Wire bytes: all, those that crossed racks, and those with an unknown rack."""

    wire_bytes: int = 0
    crossing: int = 0
    unknown: int = 0

    def add(self, flow: Flow) -> None:
        """Adds one flow."""
        self.wire_bytes += flow.volume.wire_bytes
        if flow.key.cross_rack is None:
            self.unknown += flow.volume.wire_bytes
        elif flow.key.cross_rack:
            self.crossing += flow.volume.wire_bytes


def summed(flows: Iterable[Flow], by: Callable[[Flow], _Key]) -> dict[_Key, Sum]:
    """Returns the sums of flows by a key."""
    sums: dict[_Key, Sum] = defaultdict(Sum)
    for flow in flows:
        sums[by(flow)].add(flow)
    return dict(sums)


def broker_racks(snapshot: TrafficSnapshot) -> tuple[str, ...]:
    """Returns the racks of the brokers, sorted by name."""
    return tuple(sorted({rack for rack in snapshot.cluster.brokers.values() if isinstance(rack, str)}))


def report(
    snapshot: TrafficSnapshot,
    prices: PriceTable,
    *,
    roles: Mapping[str, str],
    bootstrap: str = "",
    own_share_of: Callable[[GroupTraffic], float | None] = own_share,
) -> Report:
    """Returns the report of one snapshot.

    Args:
        snapshot: what was measured.
        prices: what a byte costs.
        roles: the agent's role in the groups that it leads or is to lead.
        bootstrap: `bootstrap.servers` of the measured cluster.
        own_share_of: returns the share of a group's own assignor; called for led groups only, as it computes a plan.
    """
    groups = [
        group_cost(group, prices, window=snapshot.window_seconds, role=roles.get(group.group, ""), own=own_share_of)
        for group in snapshot.groups
    ]
    flows = [flow for group in snapshot.groups for flow in group.flows]
    return Report(
        prices=prices,
        bootstrap=bootstrap,
        racks=broker_racks(snapshot),
        window_start=snapshot.window_start,
        window_end=snapshot.window_end,
        cycle=snapshot.cycle,
        groups=tuple(sorted(groups, key=lambda group: (-group.dollars, -group.cross_rack_bytes, group.group))),
        pairs=_pairs(flows, prices),
        gaps=snapshot.gaps,
    )


def group_cost(
    group: GroupTraffic,
    prices: PriceTable,
    *,
    window: float,
    role: str,
    own: Callable[[GroupTraffic], float | None],
) -> GroupCost:
    """Returns one group's part of the report; `window` is the length of its flows' window in seconds."""
    total = Sum()
    for flow in group.flows:
        total.add(flow)
    shares = group.shares
    by_bytes = shares.present_bytes is not None
    own_part = own(group) if role == LEADING else None
    dollars = prices.dollars(total.crossing)
    priced = window > 0 and (not total.wire_bytes or total.wire_bytes > total.unknown)
    return GroupCost(
        group=group.group,
        kind=group.kind,
        state=group.state,
        assignor=group.assignor,
        role=role,
        members=len(group.members),
        members_without_rack=sum(member.rack.rack is None for member in group.members),
        partitions=len(group.partitions),
        wire_bytes=total.wire_bytes,
        cross_rack_bytes=total.crossing,
        unknown_bytes=total.unknown,
        bytes_per_second=group.bytes_per_second,
        dollars=dollars,
        dollars_per_month=dollars / window * SECONDS_PER_MONTH if priced else None,
        share=shares.present_bytes if by_bytes else shares.present_partitions,
        share_by="bytes" if by_bytes else "partitions",
        optimal_share=shares.optimal,
        random_share=shares.random,
        own_share=own_part,
        saved_dollars_per_month=_saved(total, own_part, prices, window),
        topic_share=group.topic_share,
        busiest=group.busiest,
        exact=bool(group.flows) and all(flow.key.method == "exact" for flow in group.flows),
        pairs=_pairs(group.flows, prices),
        topics=_topics(group.flows, prices),
        blind_spots=tuple(spot.value for spot in group.blind_spots),
        note=group.note,
    )


def _saved(total: Sum, own_part: float | None, prices: PriceTable, window: float) -> float | None:
    """Returns what the same bytes would have cost under the group's own assignor, minus their cost, per month."""
    if own_part is None or window <= 0:
        return None
    would_cross = own_part * (total.wire_bytes - total.unknown)
    return prices.dollars(would_cross - total.crossing) / window * SECONDS_PER_MONTH


def _pairs(flows: Iterable[Flow], prices: PriceTable) -> tuple[PairCost, ...]:
    sums = summed(flows, lambda flow: (flow.key.client_rack, flow.key.replica_rack))
    return tuple(
        PairCost(
            client_rack=client, replica_rack=replica, wire_bytes=one.wire_bytes, dollars=prices.dollars(one.crossing)
        )
        for (client, replica), one in sorted(sums.items())
    )


def _topics(flows: Iterable[Flow], prices: PriceTable) -> tuple[TopicCost, ...]:
    sums = summed(flows, lambda flow: flow.key.topic)
    return tuple(
        TopicCost(
            topic=topic,
            wire_bytes=one.wire_bytes,
            cross_rack_bytes=one.crossing,
            dollars=prices.dollars(one.crossing),
        )
        for topic, one in sorted(sums.items(), key=lambda entry: (-entry[1].crossing, entry[0]))
    )
