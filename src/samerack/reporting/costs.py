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
from samerack.reporting.group_lag import lag_of_group, lag_of_topic
from samerack.reporting.report import GroupCost, PairCost, Report, TopicCost
from samerack.reporting.serving import ServedElsewhere, avoidable_by_plans, served_elsewhere
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
        """The bytes that are known to have crossed racks: a lower bound if there are others with an unknown rack.

        None if there are only others: 0 is what was measured.
        """
        return None if self.unknown and not self.crossing else self.crossing

    @property
    def known(self) -> int:
        """The bytes with both racks known."""
        return self.wire_bytes - self.unknown

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
    flows = [flow for group in snapshot.groups if read_by(group) is not None for flow in group.flows]
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


def read_by(group: GroupTraffic) -> Sum | None:
    """Return what a group read in the window; None if its bytes are not known, as sizes are not, or not yet."""
    return None if group.bytes_per_second is None else summed(group.flows, lambda _: None).get(None, Sum())


def _dollars(total: Sum | None, prices: PriceTable) -> float | None:
    crossing = None if total is None else total.known_crossing
    return None if crossing is None else prices.dollars(crossing)


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
    total = read_by(group)
    crossing = None if total is None else total.known_crossing
    shares = group.shares
    by_bytes = shares.present_bytes is not None
    own_part = own(group) if role == LEADING else None
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
        wire_bytes=None if total is None else total.wire_bytes,
        cross_rack_bytes=crossing,
        unknown_bytes=None if total is None else total.unknown,
        bytes_per_second=group.bytes_per_second,
        dollars=_dollars(total, prices),
        dollars_per_month=monthly(crossing),
        share=shares.present_bytes if by_bytes else shares.present_partitions,
        share_by="bytes" if by_bytes else "partitions",
        optimal_share=shares.optimal,
        random_share=shares.random,
        own_share=own_part,
        saved_dollars_per_month=_saved(total, own_part, prices, window),
        topic_share=group.topic_share,
        busiest=group.busiest,
        exact=bool(group.flows) and all(flow.key.method == "exact" for flow in group.flows),
        pairs=_pairs(group.flows if total is not None else (), prices),
        topics=_topics(group, prices, is_measured=total is not None),
        **lag_of_group(group),
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


def _avoidable_bytes(total: Sum | None, share: float | None, elsewhere: ServedElsewhere | None) -> float | None:
    """Return the bytes that better plans avoid; a share of partitions may be more than what crosses for that."""
    if share is None or total is None or total.known_crossing is None:
        return None
    needless = elsewhere.wire_bytes if elsewhere is not None else 0
    return min(share * total.known, total.known_crossing - needless)


def _guessed_bytes(total: Sum | None, random: float | None) -> float | None:
    """Return how many of the bytes with an unknown rack cross racks if they are read at random."""
    if total is None or not total.unknown:
        return None if total is None else 0.0
    return None if random is None else total.unknown * random


def _saved(total: Sum | None, own_part: float | None, prices: PriceTable, window: float) -> float | None:
    """Return what the same bytes would have cost under the group's own assignor, minus their cost, per month."""
    if own_part is None or total is None or total.known_crossing is None:
        return None
    return per_month(prices.dollars(own_part * total.known - total.known_crossing), window)


def _pairs(flows: Iterable[Flow], prices: PriceTable) -> tuple[PairCost, ...]:
    sums = summed(flows, lambda flow: (flow.key.client_rack, flow.key.replica_rack))
    return tuple(
        PairCost(client_rack=client, replica_rack=replica, wire_bytes=one.wire_bytes, dollars=_dollars(one, prices))
        for (client, replica), one in sorted(sums.items())
    )


def _topics(group: GroupTraffic, prices: PriceTable, *, is_measured: bool) -> tuple[TopicCost, ...]:
    """Return what was read, and what was not although there is something."""
    sums = summed(group.flows, lambda flow: flow.key.topic)
    for topic in group.lag:
        sums.setdefault(topic, Sum())
    return tuple(
        TopicCost(
            topic=topic,
            wire_bytes=one.wire_bytes if is_measured else None,
            cross_rack_bytes=one.known_crossing if is_measured else None,
            dollars=_dollars(one if is_measured else None, prices),
            **lag_of_topic(group, topic),
        )
        for topic, one in sorted(sums.items(), key=lambda entry: (-entry[1].crossing, entry[0]))
    )
