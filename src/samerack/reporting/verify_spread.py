"""Checks whether balanced plans can read in rack at all: how members, leaders and replicas are spread, rack names.

What the best balanced plan reads across racks has up to three causes: members unevenly spread, members that read
leaders only, and racks without a replica. Each has its part of the share, so that no part is reported twice. In
`range` groups, topics that stay together are one more. Rack names of members and brokers may not match: other case,
zone names against zone ids, or unknown names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samerack.assignors.problem import NOBODY, Problem
from samerack.cluster.view import BrokerRacks
from samerack.common import words
from samerack.common.records import LEADING
from samerack.planning.rack_spread import RackSpread, rack_spread
from samerack.reporting.baseline import share_with_every_replica, together_and_apart
from samerack.reporting.evidence import (
    Code,
    Evidence,
    Finding,
    dollars_per_month,
    fetching,
    in_group,
    needing,
    priced,
    replicas_in,
)
from samerack.reporting.report import MIN_SHARE, GroupCost
from samerack.settings.cures import command
from samerack.settings.leading import RackSettings
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


_AWS_NAMES: Final = "zone names of AWS"
_SCHEMES: Final = (
    ("zone ids of AWS", re.compile(r"[a-z]{2,5}\d-(?:[a-z]+\d-)?az\d+")),  # use1-az1, usw2-lax1-az1
    (_AWS_NAMES, re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d[a-z]")),  # us-east-1a, us-gov-west-1b
    ("zone names of Google Cloud", re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")),  # us-central1-a
    ("Azure's zones with region", re.compile(r"[a-z]+\d?-\d")),  # westeurope-1
    ("bare numbers", re.compile(r"\d+")),
)
_ZONE_IDS: Final = (
    "an AWS zone name may mean different zones in different accounts, a zone id does not: if members and brokers have "
    "different accounts, use ids (`aws ec2 describe-availability-zones` lists both)"
)
_MAX_SHOWN: Final = 3
"""Racks that are named in a text; more are counted as "..."."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RackNames:
    """A reason why racks of members and racks of brokers do not match."""

    code: Code
    cause: str
    cure: str
    racks: frozenset[str]
    """The racks of members that it is about."""


def rack_names(members: AbstractSet[str], brokers: AbstractSet[str], *, complete: bool = True) -> Iterator[RackNames]:
    """Yield why member racks match no broker rack; nothing if each of them does, or one of the sets is empty.

    `complete`: whether every broker's rack is known; an absent broker may be the one in a member's rack.
    """
    strangers = members - brokers
    if not strangers or not brokers:
        return
    folded = {rack.casefold(): rack for rack in sorted(brokers)}
    twins = {rack: folded[rack.casefold()] for rack in sorted(strangers) if rack.casefold() in folded}
    if twins:
        shown = ", ".join(f"{rack!r} and {twin!r}" for rack, twin in list(twins.items())[:3])
        yield RackNames(
            code=Code.RACKS_DIFFER_IN_CASE,
            cause=f"racks of members and brokers differ only in case: {shown}; they never match",
            cure="spell client.rack exactly like broker.rack",
            racks=frozenset(twins),
        )
    strangers -= twins.keys()
    if not strangers:
        return
    mine, theirs = scheme(strangers), scheme(brokers)
    if mine and theirs and mine != theirs:
        yield RackNames(
            code=Code.ZONE_NAME_AGAINST_ID,
            cause=f"members are in {mine} ({_some(strangers)}), brokers in {theirs} ({_some(brokers)}): they never "
            "match",
            cure="use the same kind on both sides; "
            + (_ZONE_IDS if _AWS_NAMES in (mine, theirs) else "pod.zones translates names"),
            racks=frozenset(strangers),
        )
        return
    whole = strangers == members
    if not whole and not complete:
        return
    yield RackNames(
        code=Code.RACKS_NEVER_MEET,
        cause=f"{'no rack of a member is' if whole else 'some racks of members are not'} a rack of a broker: "
        f"{_some(strangers)}; brokers are in {_some(brokers)}. Members there always read across racks, or the "
        "names are misspelt",
        cure="correct client.rack (or racks.client_ids and racks.networks), or place brokers and replicas in these "
        f"racks{f'; {_ZONE_IDS}' if mine == theirs == _AWS_NAMES else ''}",
        racks=frozenset(strangers),
    )


def rack_warnings(members: Iterable[str | None], settings: RackSettings, brokers: BrokerRacks) -> list[str]:
    """Return why racks of members match no broker rack, and those that the settings name for members to come."""
    own = {rack for rack in members if rack is not None}
    texts = [f"{one.cause}; {one.cure}" for one in rack_names(own, brokers.names, complete=brokers.complete)]
    unused = {*settings.client_ids.values(), *settings.networks.values()} - own - brokers.names
    if unused and brokers.complete:
        texts.append(
            f"racks.client_ids or racks.networks name {_some(unused)}, which no broker has; brokers are in "
            f"{_some(brokers.names)}: correct the names"
        )
    return texts


def names_of(evidence: Evidence, group: GroupTraffic) -> tuple[RackNames, ...]:
    """Return why racks of a group's members match no broker rack."""
    members = {member.rack.named for member in group.members if member.rack.named is not None}
    brokers = evidence.snapshot.cluster.racks
    return tuple(rack_names(members, brokers.names, complete=brokers.complete))


def scheme(racks: AbstractSet[str]) -> str:
    """Return the naming scheme of all these racks, "" if no cloud provider uses it."""
    return next((name for name, pattern in _SCHEMES if all(pattern.fullmatch(rack) for rack in racks)), "")


def _some(racks: AbstractSet[str]) -> str:
    shown = map(repr, sorted(racks)[:_MAX_SHOWN])  # quoted, so that a blank at the end is seen
    return ", ".join(shown) + (", ..." if len(racks) > _MAX_SHOWN else "")
