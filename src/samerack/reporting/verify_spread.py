"""Checks whether balanced plans can read in rack at all: how members, leaders and replicas are spread over racks.

What the best balanced plan reads across racks has up to three causes: members unevenly spread, members that read
leaders only, and racks without a replica. Each has its part of the share, so that no part is reported twice. In
`range` groups, topics that stay together are one more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from samerack.assignors.problem import NOBODY, Problem
from samerack.common import words
from samerack.common.records import LEADING
from samerack.planning.rack_spread import RackSpread, rack_spread
from samerack.reporting.baseline import share_with_every_replica, together_and_apart
from samerack.reporting.costs import MIN_SHARE
from samerack.reporting.evidence import Evidence, dollars_per_month, fetching, in_group, needing, priced, replicas_in
from samerack.reporting.findings import Code, Finding
from samerack.reporting.report import GroupCost
from samerack.reporting.verify_racks import names_of
from samerack.settings.cures import command
from samerack.traffic.shares import mode_of_group
from samerack.traffic.snapshot import STREAMS_KINDS, GroupTraffic

CURE_OF_COPARTITIONING: Final = (
    "set leading.keep_copartitioned=never, unless a consumer needs the same partition of several topics, to join them"
)
_MAX_RACKS: Final = 6
"""More racks than this are counted instead of named."""
_MAX_TOPICS: Final = 3


def members_uneven(spread: RackSpread) -> bool:
    """Return whether members spread evenly would let balanced plans read less across racks, by more than MIN_SHARE.

    Counts alone are no reason: where every rack has a replica of every partition, members may be anywhere.
    """
    return spread.share - spread.share_if_even > MIN_SHARE


def uneven_in_words(spread: RackSpread) -> str:
    """Return what uneven members cost any balanced plan."""
    return (
        f"any balanced plan reads at least {spread.share:.0%} across racks ({spread.across} of {spread.partitions} "
        f"partitions), {spread.share_if_even:.0%} if members were spread evenly"
    )


def cure_of_uneven(spread: RackSpread) -> str:
    """Return which racks have too many members, and too few."""
    wanted = {one.rack: f"{one.rack} ({one.even_members}, not {one.members})" for one in spread.racks}
    changes = [
        f"{how} in {', '.join(wanted[rack] for rack in racks[:_MAX_RACKS])}"
        for how, racks in (("fewer", spread.too_many), ("more", spread.too_few))
        if racks
    ]
    which = ", ".join(changes) or "those of each subscription, as all of them together are even"
    return f"spread members evenly over racks: {which}; in Kubernetes, with topologySpreadConstraints"


def spread_over_racks(evidence: Evidence) -> Iterator[Finding]:
    """Find groups of which no balanced plan can read in rack, and why."""
    for group, cost in evidence.pairs:
        if group.problem is None or (group.shares.optimal or 0.0) <= MIN_SHARE:
            continue
        if not {member.rack.rack for member in group.members} & set(evidence.racks) or names_of(evidence, group):
            continue  # rack names that match none of a broker are another finding, which has the price
        yield from _causes(evidence, group, cost)


def _causes(evidence: Evidence, group: GroupTraffic, cost: GroupCost) -> Iterator[Finding]:
    racks = {member.rack.rack for member in group.members}
    any_replica = share_with_every_replica(group)
    # members whose rack may have brokers are no count to compare, and the threads of a Streams instance stay together
    comparable = racks <= set(evidence.racks) and group.kind not in STREAMS_KINDS
    ideal = _spread(evidence, group, any_replica=True) if comparable else None
    spread = _spread(evidence, group, any_replica=False) if ideal is not None else None
    if spread is not None and members_uneven(spread):
        yield _members(evidence, group, cost, spread)
    elif spread is not None and any_replica is not None and spread.share - any_replica > MIN_SHARE:
        yield _leaders(evidence, group, cost, spread, any_replica)
    least = any_replica if any_replica is None or ideal is None else min(any_replica, ideal.share_if_even)
    if least is not None and least > MIN_SHARE and evidence.racks_complete:  # else replicas there may just be away
        yield _replicas(evidence, group, cost, least, even=ideal is not None)
    yield from _copartitioning(evidence, group, cost)


def _spread(evidence: Evidence, group: GroupTraffic, *, any_replica: bool) -> RackSpread | None:
    """Return how the group is spread over racks, or would be if any replica in a member's rack served it.

    Where the brokers do not let that happen, which is another finding, or their configuration is not known, it counts
    so anyway: it is the least that crosses.
    """
    problem = group.problem
    if problem is None:
        return None
    if any_replica or not evidence.snapshot.rack_aware_fetch:
        problem = replace(problem, reads_any_replica=np.ones_like(problem.reads_any_replica))
    return rack_spread(problem, evidence.snapshot.cluster, group.long_run_rates)


def _members(evidence: Evidence, group: GroupTraffic, cost: GroupCost, spread: RackSpread) -> Finding:
    show = command("plan", "--curve", group=group.group, bootstrap=evidence.report.bootstrap)
    curve = f"; or allow unequal shares: {show}"
    finding = Finding(
        code=Code.UNEVEN_OVER_RACKS,
        where=in_group(group),
        cause=f"{uneven_in_words(spread)}; {_by_rack(spread)}",
        cure=cure_of_uneven(spread) + (curve if group.kind == "classic" else ""),
        dollars_per_month=_dollars(evidence, cost, spread.share - spread.share_if_even),
    )
    # who reads as at random does so wherever members are: only plans by racks make use of it
    return needing(finding, "let the agent lead it") if cost.avoidable_share and cost.role != LEADING else finding


def _leaders(
    evidence: Evidence, group: GroupTraffic, cost: GroupCost, spread: RackSpread, any_replica: float
) -> Finding:
    silent = sum(not member.rack.fetches_with_rack for member in group.members)
    many = f"{silent} of {len(group.members)} members"
    who = f"{many} are not known to fetch with their rack, so only" if silent else "only"
    leaders = ", ".join(f"{rack.rack} {rack.leaders}" for rack in spread.racks[:_MAX_RACKS])
    finding = Finding(
        code=Code.UNEVEN_OVER_RACKS,
        where=in_group(group),
        cause=f"{who} leaders are near them ({leaders}): any balanced plan reads at least {spread.share:.0%} across "
        f"racks, {any_replica:.0%} "
        "if any replica in their rack served them",
        cure="set client.rack, and list clients that have it but do not send it to the group in racks.fetch_with_rack. "
        "Or spread leaders like members: kafka-leader-election.sh --election-type preferred",
    )
    return priced(evidence, group, cost, finding, fetching({member.id for member in group.members}))


def _replicas(evidence: Evidence, group: GroupTraffic, cost: GroupCost, share: float, *, even: bool) -> Finding:
    also = ", also with members spread evenly" if even else ""
    worst = "" if group.problem is None else _worst_topics(group.problem)
    finding = Finding(
        code=Code.REPLICAS_PREVENT_LOCALITY,
        where=in_group(group),
        cause=f"at least {share:.0%} must cross racks in any balanced plan{also}: {worst}",
        cure="give these topics a replica in each rack (replication factor = racks), or place members like partitions, "
        "most of them where most partitions are",
    )
    return priced(evidence, group, cost, finding, replicas_in(evidence.racks))


def _copartitioning(evidence: Evidence, group: GroupTraffic, cost: GroupCost) -> Iterator[Finding]:
    """Find out what it costs that co-partitioned topics stay together, as with Kafka's range."""
    if not mode_of_group(group, evidence.leading, rack_aware_fetch=True).options.keep_copartitioned:
        return
    together, apart = together_and_apart(group)
    if together is not None and apart is not None and together - apart > MIN_SHARE:
        yield Finding(
            code=Code.COPARTITIONING,
            where=in_group(group),
            cause=f"co-partitioned topics stay together, as with Kafka's range: {together:.0%} must cross racks, "
            f"{apart:.0%} if they need not",
            cure=CURE_OF_COPARTITIONING,
            dollars_per_month=_dollars(evidence, cost, together - apart),
        )


def _dollars(evidence: Evidence, cost: GroupCost, share: float) -> float | None:
    """Return what a part of the bytes with known racks costs a month, if that part crosses racks; None if not known."""
    if cost.known_bytes is None or cost.cross_rack_bytes is None:
        return None
    return dollars_per_month(evidence, min(share * cost.known_bytes, cost.cross_rack_bytes))


def _by_rack(spread: RackSpread) -> str:
    """Return the members of each rack and the partitions near them, of the most uneven racks."""
    uneven = sorted(spread.racks, key=lambda rack: -abs(rack.members - rack.even_members))[:_MAX_RACKS]
    texts = [
        f"{one.rack} {one.members} and {one.near_partitions}"
        + ("" if one.near_bytes_per_second is None else f" ({words.rate(one.near_bytes_per_second)})")
        for one in sorted(uneven, key=lambda one: one.rack)
    ]
    return f"members and partitions near them: {', '.join(texts)}" + (
        ", ..." if len(spread.racks) > len(uneven) else ""
    )


def _worst_topics(problem: Problem) -> str:
    """Return a text with the topics that have most partitions without a replica in some rack of a member."""
    wanted = np.unique(problem.member_rack[problem.member_rack != NOBODY])
    lacking = ~problem.replica_racks[:, wanted].all(axis=1)
    counts = np.bincount(problem.topic_of[lacking], minlength=len(problem.topics))
    totals = np.bincount(problem.topic_of, minlength=len(problem.topics))
    worst = [int(topic) for topic in np.argsort(-counts, kind="stable")[:_MAX_TOPICS] if counts[topic]]
    return "; ".join(
        f"{counts[topic]} of {totals[topic]} partitions of {problem.topics[topic]} have no replica in some rack of a "
        "member"
        for topic in worst
    )
