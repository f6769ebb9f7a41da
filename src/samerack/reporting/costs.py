"""Computes the report from a snapshot and prices: which group read how much across racks, from where, and its cost.

Pure: the same snapshot gives the same report. No plan avoids what other racks serve although members fetch with theirs
(KIP-392). Two things show that: the brokers' answer to a fetch with the member's rack (`traffic.collect`), and the
bytes that a client itself counted by broker. A serving replica that was only guessed from the brokers' configuration
shows nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TypeVar

from samerack.cluster.view import ClusterView
from samerack.common.money import PriceTable, per_month
from samerack.common.records import LEADING
from samerack.planning.rack_spread import broker_racks
from samerack.reporting.baseline import own_share
from samerack.reporting.bill import bill
from samerack.reporting.group_lag import lag_of_group, lag_of_topic
from samerack.reporting.report import MIN_SHARE, GroupCost, PairCost, Report, TopicCost
from samerack.traffic.shares import random_share
from samerack.traffic.snapshot import BlindSpot, Flow, GroupTraffic, TrafficSnapshot, Uncounted

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

    def crossing_at(self, share: float | None) -> float | None:
        """Return how many would cross racks at this share of those with both racks known; None if there are none."""
        return None if share is None or (self.unknown and not self.known) else share * self.known

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
        racks=broker_racks(snapshot.cluster),
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
    avoidable = _avoidable_by_plans(group, elsewhere)

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
        exact=bool(group.flows) and all(flow.key.method == "exact" for flow in group.flows),
        pairs=_pairs(group.flows if total is not None else (), prices),
        topics=_topics(group, prices, is_measured=total is not None),
        **asdict(lag_of_group(group)),
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
    own = None if total is None else total.crossing_at(own_part)
    return None if total is None or own is None else per_month(prices.dollars(own - total.crossing), window)


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
            unknown_bytes=one.unknown if is_measured else None,
            **asdict(lag_of_topic(group, topic)),
        )
        for topic, one in sorted(sums.items(), key=lambda entry: (-entry[1].crossing, entry[0]))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedElsewhere:
    """What a group reads across racks although a replica in the member's rack could serve it.

    Attributes:
        wire_bytes: how much in the window.
        share: its part of the window's bytes with both racks known.
        partitions: partitions of which the brokers answer now that a replica in another rack serves; None where no
            broker was asked, or not about all of them.
        partitions_share: their part of the partitions with both racks known; 0 where no broker was asked.
    """

    wire_bytes: int
    share: float
    partitions: int | None
    partitions_share: float


def served_elsewhere(snapshot: TrafficSnapshot, group: GroupTraffic) -> ServedElsewhere | None:
    """Return what other racks served without need, if it is more than MIN_SHARE.

    Bytes count where each partition of the topic has an in-sync replica in the member's rack, whoever owned it, and
    each of the group's members there fetches with its rack. Estimated bytes count only while the brokers answer so.
    None where that is less, not known, or because of the brokers' selector, which is another finding.
    """
    known = sum(flow.volume.wire_bytes for flow in group.flows if flow.key.cross_rack is not None)
    if snapshot.rack_aware_fetch is False or not known:
        return None
    elsewhere, owned = _answered(snapshot.cluster, group)
    asked = BlindSpot.SERVING_GUESSED not in group.blind_spots
    fetching = _racks_that_fetch(group)
    needless = sum(
        flow.volume.wire_bytes
        for flow in group.flows
        if flow.key.cross_rack
        and (flow.key.method == "exact" or (asked and elsewhere))
        and flow.key.client_rack in fetching
        and _has_replicas(snapshot.cluster, flow)
    )
    if needless / known <= MIN_SHARE:
        return None
    return ServedElsewhere(
        wire_bytes=needless,
        share=needless / known,
        partitions=elsewhere if asked else None,
        partitions_share=elsewhere / owned if asked and owned else 0.0,
    )


def _avoidable_by_plans(group: GroupTraffic, elsewhere: ServedElsewhere | None) -> float | None:
    """Return the share that better plans avoid: 0 if it is at most MIN_SHARE, None if it is not known.

    What other racks serve although a replica in the member's could do it, no plan avoids: it is another finding.
    """
    present, optimal = group.shares.present, group.shares.optimal
    if present is None or optimal is None:
        return None
    saving = present - optimal
    if saving > MIN_SHARE and elsewhere is not None:
        saving -= elsewhere.share if group.shares.present_is_by_bytes else elsewhere.partitions_share
    return saving if saving > MIN_SHARE else 0.0


def _answered(cluster: ClusterView, group: GroupTraffic) -> tuple[int, int]:
    """Return the partitions that another rack serves with a replica in sync in the member's, and all known ones."""
    members = {member.id: member.rack for member in group.members}
    elsewhere = known = 0
    for partition in group.partitions:
        member = members.get(partition.member) if partition.member is not None else None
        if member is None or member.rack is None or partition.serving_rack is None:
            continue
        known += 1
        view = cluster.partition(*partition.partition)
        if member.fetches_with_rack and partition.serving_rack != member.rack and view is not None:
            elsewhere += any(cluster.brokers.get(broker) == member.rack for broker in view.in_sync)
    return elsewhere, known


def _racks_that_fetch(group: GroupTraffic) -> frozenset[str]:
    """Return the racks in which each member of the group fetches with its rack."""
    racks = {member.rack.rack for member in group.members if member.rack.rack is not None}
    return frozenset(racks - {member.rack.rack for member in group.members if not member.rack.fetches_with_rack})


def _has_replicas(cluster: ClusterView, flow: Flow) -> bool:
    """Return whether each partition of the flow's topic has an in-sync replica in the client's rack."""
    views = cluster.topics.get(flow.key.topic, ())
    return bool(views) and all(
        any(cluster.brokers.get(broker) == flow.key.client_rack for broker in view.in_sync) for view in views
    )
