"""Computes the report from a snapshot and prices: which group read how much across racks, from where, and its cost.

Pure: the same snapshot gives the same report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from samerack.common.money import PriceTable, per_month
from samerack.common.records import LEADING
from samerack.reporting.baseline import own_share
from samerack.reporting.bill import bill
from samerack.reporting.group_lag import lag_fields
from samerack.reporting.report import GroupCost, PairCost, Report, TopicCost
from samerack.reporting.serving import ServedElsewhere, avoidable_by_plans, served_elsewhere
from samerack.traffic.lag import lag_of_all, oldest_of_all
from samerack.traffic.lower_bound import LowerBound
from samerack.traffic.shares import random_share
from samerack.traffic.snapshot import Flow, GroupTraffic, TrafficSnapshot, Uncounted

_Key = TypeVar("_Key")


@dataclass(slots=True)
class Sum:
    """Wire bytes: all, those that crossed racks, and those with an unknown rack."""

    wire_bytes: int = 0
    crossing: int = 0
    unknown: int = 0

    @property
    def known_crossing(self) -> int | None:
        """The bytes that crossed racks; None if bytes were read and none of them has both racks known."""
        return self.crossing if not self.wire_bytes or self.wire_bytes > self.unknown else None

    def add(self, flow: Flow) -> None:
        """Add one flow."""
        self.wire_bytes += flow.volume.wire_bytes
        if flow.key.cross_rack is None:
            self.unknown += flow.volume.wire_bytes
        elif flow.key.cross_rack:
            self.crossing += flow.volume.wire_bytes


def summed(flows: Iterable[Flow], by: Callable[[Flow], _Key]) -> dict[_Key, Sum]:
    """Return the sums of flows by a key."""
    sums: dict[_Key, Sum] = defaultdict(Sum)
    for flow in flows:
        sums[by(flow)].add(flow)
    return dict(sums)


def broker_racks(snapshot: TrafficSnapshot) -> tuple[str, ...]:
    """Return the racks of the brokers, sorted by name."""
    return tuple(sorted({rack for rack in snapshot.cluster.brokers.values() if isinstance(rack, str)}))


def report(
    snapshot: TrafficSnapshot,
    prices: PriceTable,
    *,
    roles: Mapping[str, str],
    bootstrap: str = "",
    own_share_of: Callable[[GroupTraffic], float | None] = own_share,
) -> Report:
    """Return the report of one snapshot.

    `roles` has the agent's role in the groups that it leads or is to lead. `own_share_of` returns the share of a
    group's own assignor; it is called for led groups only, as it computes a plan.
    """
    groups = [
        group_cost(
            group,
            prices,
            window=snapshot.window_seconds,
            role=roles.get(group.group, ""),
            own=own_share_of,
            elsewhere=served_elsewhere(snapshot, group),
        )
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
        groups=tuple(sorted(groups, key=_by_cost)),
        pairs=_pairs(flows, prices),
        gaps=snapshot.gaps,
        bill=bill(snapshot.replication, prices, random_share=random_share(snapshot.cluster)),
    )


def _by_cost(group: GroupCost) -> tuple[float, float, str]:
    return -group.dollars_to_sort_by, -(group.cross_rack_bytes or 0), group.group


def _dollars(total: Sum, prices: PriceTable) -> float | None:
    return None if total.known_crossing is None else prices.dollars(total.known_crossing)


def _not_counted(group: GroupTraffic) -> list[tuple[Uncounted, int]]:
    return [(why, records) for why, records in sorted(group.not_counted.items()) if records]


def group_cost(  # noqa: PLR0913 - what the report has of a group
    group: GroupTraffic,
    prices: PriceTable,
    *,
    window: float,
    role: str,
    own: Callable[[GroupTraffic], float | None],
    elsewhere: ServedElsewhere | None = None,
) -> GroupCost:
    """Return one group's part of the report.

    `window` is the length of its flows' window in seconds, `role` the agent's role in it. `own` returns the share of
    its own assignor; `elsewhere` is what other racks serve without need.
    """
    total = Sum()
    for flow in group.flows:
        total.add(flow)
    shares = group.shares
    by_bytes = shares.present_bytes is not None
    own_part = own(group) if role == LEADING else None
    dollars = _dollars(total, prices)
    avoidable = avoidable_by_plans(group, elsewhere)

    def monthly(crossing: float | None) -> float | None:
        return None if crossing is None else per_month(prices.dollars(crossing), window)

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
        cross_rack_bytes=total.known_crossing,
        unknown_bytes=total.unknown,
        bytes_per_second=group.bytes_per_second,
        dollars=dollars,
        dollars_per_month=monthly(total.known_crossing),
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
        topics=_topics(group, prices),
        **lag_fields(lag_of_all(group.lag.values()), oldest_of_all(group.lag_seconds.values())),
        blind_spots=(
            *(spot.value for spot in group.blind_spots),
            *(f"not counted: {records:,} records at most {why.sentence}" for why, records in _not_counted(group)),
        ),
        not_counted={why.value: records for why, records in _not_counted(group)},
        note=group.note,
        avoidable_share=avoidable,
        avoidable_dollars_per_month=monthly(_avoidable_bytes(total, avoidable, elsewhere)),
        guessed_dollars_per_month=monthly(_guessed_bytes(total, shares.random)),
    )


def _avoidable_bytes(total: Sum, share: float | None, elsewhere: ServedElsewhere | None) -> float | None:
    """Return the bytes that better plans avoid; a share of partitions may be more than what crosses for that."""
    crossing = total.known_crossing
    if share is None or crossing is None:
        return None
    if elsewhere is not None:
        crossing -= elsewhere.wire_bytes
    return min(share * (total.wire_bytes - total.unknown), crossing)


def _guessed_bytes(total: Sum, random: float | None) -> float | None:
    """Return how many of the bytes with an unknown rack cross racks if they are read at random."""
    if not total.unknown:
        return 0.0
    return None if random is None else total.unknown * random


def _saved(total: Sum, own_part: float | None, prices: PriceTable, window: float) -> float | None:
    """Return what the same bytes would have cost under the group's own assignor, minus their cost, per month."""
    if own_part is None:
        return None
    would_cross = own_part * (total.wire_bytes - total.unknown)
    return per_month(prices.dollars(would_cross - total.crossing), window)


def _pairs(flows: Iterable[Flow], prices: PriceTable) -> tuple[PairCost, ...]:
    sums = summed(flows, lambda flow: (flow.key.client_rack, flow.key.replica_rack))
    return tuple(
        PairCost(client_rack=client, replica_rack=replica, wire_bytes=one.wire_bytes, dollars=_dollars(one, prices))
        for (client, replica), one in sorted(sums.items())
    )


def _topics(group: GroupTraffic, prices: PriceTable) -> tuple[TopicCost, ...]:
    """Return what was read, and what was not although there is something."""
    sums = summed(group.flows, lambda flow: flow.key.topic)
    for topic in group.lag:
        sums.setdefault(topic, Sum())
    return tuple(
        TopicCost(
            topic=topic,
            wire_bytes=one.wire_bytes,
            cross_rack_bytes=one.known_crossing,
            dollars=_dollars(one, prices),
            **lag_fields(group.lag.get(topic, LowerBound()), group.lag_seconds.get(topic, LowerBound())),
        )
        for topic, one in sorted(sums.items(), key=lambda entry: (-entry[1].crossing, entry[0]))
    )
