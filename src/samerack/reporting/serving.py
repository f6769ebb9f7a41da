"""Whether members that fetch with their rack are served from it (KIP-392), whoever assigns the partitions.

Two things show that: the brokers' answer to a fetch with the member's rack (`traffic.probe`), and the bytes that a
client itself counted by broker. A serving replica that was only guessed from the brokers' configuration shows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from samerack.cluster.view import ClusterView
from samerack.traffic.snapshot import BlindSpot, Flow, GroupTraffic, TrafficSnapshot

MIN_SHARE: Final = 0.05
"""Shares that differ by less than this are treated as equal: five points, the default of `policy.min_saving`."""


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


def avoidable_by_plans(group: GroupTraffic, elsewhere: ServedElsewhere | None) -> float | None:
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
    for one in group.partitions:
        member = members.get(one.member) if one.member is not None else None
        if member is None or member.rack is None or one.serving_rack is None:
            continue
        known += 1
        view = cluster.partition(*one.partition)
        if member.fetches_with_rack and one.serving_rack != member.rack and view is not None:
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
