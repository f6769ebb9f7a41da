"""Finds the causes of avoidable cross-rack traffic, and of lag in one rack: pure checks of one measured snapshot.

Each check is a function of the evidence and does not report what another check reports more precisely. Those of how
groups are assigned are in `verify_assignments`, those of how members and replicas are spread over racks in
`verify_spread`, that of racks whose members fall behind in `verify_lag`, and the others here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from samerack.cluster.racks import sends_rack_only_in_fetch
from samerack.cluster.view import NoRack
from samerack.common import words
from samerack.common.records import LEADING
from samerack.reporting.costs import ServedElsewhere
from samerack.reporting.evidence import (
    Code,
    Cure,
    Evidence,
    Finding,
    Findings,
    dollars_per_month,
    fetchers,
    fetching,
    in_group,
    in_racks,
    needing,
    placed,
    saved,
    unserved,
)
from samerack.reporting.report import GroupCost, total_of
from samerack.reporting.verify_assignments import (
    assignor_on_some_brokers,
    at_random_baseline,
    avoidable_traffic,
    broker_assigned,
    group_full,
    no_common_protocol,
)
from samerack.reporting.verify_lag import lag_in_racks
from samerack.reporting.verify_spread import names_of, rack_names, spread_over_racks
from samerack.traffic.gaps import HAND_OVER
from samerack.traffic.snapshot import GroupTraffic, Uncounted

_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

_SET_RACK: Final = (
    "set client.rack to the member's availability zone, or name its rack in racks.client_ids or racks.networks; "
    "clients that send it only with fetches (kafka-python, aiokafka, sarama, kafkajs) need the latter, and an entry in "
    "racks.fetch_with_rack"
)
_PRICE_WHAT_IS_AVOIDABLE: Final = frozenset({Code.AT_RANDOM_BASELINE, Code.BROKER_ASSIGNED, Code.NO_COMMON_PROTOCOL})
"""Findings that name the cause of `avoidable-traffic`, with its price: the same dollars are not counted twice."""

_THEN_PLANS: Final = "On its own this saves nothing now; savings are known once racks are"
_FETCH_FIRST: Final = (
    "client.rack in the members, and racks.fetch_with_rack for clients that do not send it to their group"
)

Check = Callable[[Evidence], Iterator[Finding]]


def verdict(evidence: Evidence) -> Findings:
    """Return all findings, first the one whose cure alone saves most now."""
    totals = evidence.report.totals
    found = [finding for check in CHECKS for finding in check(evidence)]
    priced = {finding.where for finding in found if finding.code in _PRICE_WHAT_IS_AVOIDABLE}
    found += [finding for finding in avoidable_traffic(evidence) if finding.where not in priced]
    if evidence.report.prices.dollars_per_byte == 0:
        found = [replace(finding, costs=False, dollars_per_month=None) for finding in found]
    found.sort(key=_by_saving)
    return Findings(
        findings=tuple(found),
        groups=len(evidence.snapshot.groups),
        brokers=len(evidence.snapshot.cluster.brokers),
        window_seconds=evidence.snapshot.window_seconds,
        prices=evidence.report.prices.title,
        dollars_per_month=totals.dollars_per_month,
        avoidable_dollars_per_month=totals.avoidable_dollars_per_month,
        unknown_bytes=totals.unknown_bytes,
        unmeasured_groups=totals.unmeasured_groups,
        guessed_dollars_per_month=totals.guessed_dollars_per_month,
        bootstrap=evidence.report.bootstrap,
    )


def _by_saving(finding: Finding) -> tuple[bool, bool, float]:
    dollars = finding.dollars_per_month
    return not finding.costs, dollars == 0, -(dollars or 0.0)  # what is not known stands before what saves nothing


def _brokers_without_rack(evidence: Evidence) -> Iterator[Finding]:
    brokers = evidence.snapshot.cluster.brokers
    bare = sorted(broker for broker, rack in brokers.items() if rack is NoRack.UNSET)
    if bare:
        yield Finding(
            code=Code.BROKERS_WITHOUT_RACK,
            where=f"broker{'s' if len(bare) > 1 else ''} {', '.join(map(str, bare))}",
            cause=f"{len(bare)} of {len(brokers)} brokers have no broker.rack: no consumer can be near their replicas",
            cure="set broker.rack to the broker's availability zone and restart the brokers one by one",
        )


def _selector(evidence: Evidence) -> Iterator[Finding]:
    spread = any(
        len(partition.replicas) > 1 for topic in evidence.snapshot.cluster.topics.values() for partition in topic
    )
    if evidence.snapshot.rack_aware_fetch is False and spread and len(evidence.racks) > 1:
        finding = Finding(
            code=Code.NO_RACK_AWARE_SELECTOR,
            where="brokers",
            cause="not every broker has a rack-aware replica.selector.class: consumers read only from leaders, "
            "although topics have replicas in other racks",
            cure=f"set replica.selector.class={_SELECTOR} on every broker and restart them one by one (KIP-392)",
        )
        saves = _by_fetching(evidence, fetchers)
        if saves is None or saves > 0:
            yield replace(finding, dollars_per_month=saves)
        else:
            yield needing(finding, _FETCH_FIRST if _by_fetching(evidence, _everybody) else "")


def _by_fetching(evidence: Evidence, who: Callable[[GroupTraffic], frozenset[str]]) -> float | None:
    """Return what all groups would save if any replica in their rack served some of their members."""
    return total_of(saved(evidence, group, cost, fetching(who(group))) for group, cost in evidence.pairs)


def _everybody(group: GroupTraffic) -> frozenset[str]:
    return frozenset(member.id for member in group.members)


def _racks(evidence: Evidence) -> Iterator[Finding]:
    for group, cost in evidence.pairs:
        for names in names_of(evidence, group):
            finding = Finding(
                code=names.code,
                where=in_group(group),
                cause=names.cause,
                cure=names.cure,
                guessed=True,
            )
            folded = {rack.casefold(): rack for rack in evidence.racks}
            right = {
                member.id: folded.get(member.rack.named.casefold(), "")
                for member in group.members
                if member.rack.named in names.racks
            }
            known = in_racks(right) if all(right.values()) else _planned_for(cost, right)
            yield _once_known(evidence, group, cost, finding, known, fetchers(group) & right.keys())


def _once_known(  # noqa: PLR0913, PLR0917 - a finding of a group, and what its cure does
    evidence: Evidence, group: GroupTraffic, cost: GroupCost, finding: Finding, known: Cure, fetch: Collection[str]
) -> Finding:
    """Return a finding with what is saved once racks of members are known: those that fetch with theirs can be served.

    A group that the agent leads is planned anew, too; what other plans save then is not known before.
    """
    served = bool(evidence.snapshot.rack_aware_fetch)
    nearer = fetching(fetch)
    if cost.role == LEADING:
        saves = saved(evidence, group, cost, lambda problem: nearer(known(problem)) if served else known(problem))
    else:
        saves = saved(evidence, group, cost, nearer, beside=lambda problem: unserved(known(problem), fetch))
        if saves and not served:
            return needing(finding, Code.NO_RACK_AWARE_SELECTOR.value)
    if saves == 0:
        return replace(finding, dollars_per_month=saves, cure=f"{finding.cure}. {_THEN_PLANS}")
    return replace(finding, dollars_per_month=saves)


def _planned_for(cost: GroupCost, members: Collection[str]) -> Cure:
    """Return the cure by which the racks of these members are known: only the agent's plans make use of that."""
    return placed(members) if cost.role == LEADING else lambda problem: problem


def _members_without_rack(evidence: Evidence) -> Iterator[Finding]:
    """Find members whose rack no source knows."""
    for group, cost in evidence.pairs:
        bare = [member for member in group.members if member.rack.named is None]
        if not bare or len(evidence.racks) < 2:
            continue
        in_fetch = [one for one in bare if group.kind == "classic" and sends_rack_only_in_fetch(one.client_id)]
        others = [member for member in bare if member not in in_fetch]
        for members, code, cause, cure in (
            (others, Code.MEMBERS_WITHOUT_RACK, "have no rack", _SET_RACK),
            (in_fetch, Code.RACK_ONLY_IN_FETCH, "send a rack with fetches only, if any", _name_racks(evidence.racks)),
        ):
            if not members:
                continue
            names = ", ".join(sorted({member.client_id for member in members})[:3])
            finding = Finding(
                code=code,
                where=in_group(group),
                cause=f"{len(members)} of {len(group.members)} members {cause} ({names}): they get any partition",
                cure=cure,
                guessed=True,
            )
            ids = {member.id for member in members}
            yield _once_known(evidence, group, cost, finding, _planned_for(cost, ids), ids)


def _name_racks(racks: Sequence[str]) -> str:
    """Return how members become known whose client sends the group no rack; with the names of some racks."""
    patterns = {f"*-{rack}": rack for rack in racks[:3]}
    return (
        "give each member its rack (client_rack, RackID or rackId), and a client id that ends with it; then set "
        f"racks.client_ids={json.dumps(patterns)} and racks.fetch_with_rack={json.dumps(list(patterns))}"
        + (", and so on" if len(racks) > len(patterns) else "")
    )


def _followers_do_not_serve(evidence: Evidence) -> Iterator[Finding]:
    """Find groups whose members fetch with their rack, have replicas in it, and are served from other racks."""
    for group, _ in evidence.pairs:
        found = evidence.elsewhere.get(group.group)
        if found is not None:
            who, cure = _who_and_cure(found)
            yield Finding(
                code=Code.FOLLOWERS_DO_NOT_SERVE,
                where=in_group(group),
                cause=f"{found.share:.0%} of its bytes in {words.span(evidence.snapshot.window_seconds)} came from "
                "other racks, although its members are known to fetch with theirs and every partition has an in-sync "
                f"replica there: {who}. No assignment changes that",
                cure=cure,
                dollars_per_month=dollars_per_month(evidence, found.wire_bytes),
            )


def _who_and_cure(found: ServedElsewhere) -> tuple[str, str]:
    """Return who says so, and what to do: to brokers that answer so, else to the clients that count it."""
    if found.partitions:
        return (
            f"the brokers answer fetches with these racks so, of {found.partitions} partitions now",
            "set replica.selector.class on every broker and restart it, even if racks.replica_selector says that it is "
            "set; then check whether followers lag",
        )
    return (
        "its clients count so" + ("" if found.partitions is None else ", while the brokers let replicas there serve"),
        "set client.rack in these clients; remove those that cannot fetch with it from racks.fetch_with_rack",
    )


def _own_rack(evidence: Evidence) -> Iterator[Finding]:
    """Check this pod's rack, which applications next to it also use: from the same label, file or variable."""
    own = {evidence.own_rack} - {""}
    for name in rack_names(own, set(evidence.racks), complete=evidence.racks_complete):
        yield Finding(
            code=name.code,
            where="this pod",
            cause=f"no broker is in its rack {evidence.own_rack!r} (broker racks: {', '.join(evidence.racks[:3])})",
            cure="map it to a broker rack in pod.zones; `samerack rack --why` shows where it came from",
        )


def _no_reader(evidence: Evidence) -> Iterator[Finding]:
    for group in evidence.snapshot.groups:
        if records := group.not_counted.get(Uncounted.NO_READER):
            yield Finding(
                code=Code.NO_READER,
                where=in_group(group),
                cause="it never has members, and its commits have no leader epochs: either an application such as "
                f"Flink reads this way, or a tool copies offsets; up to {records:,} records are in no figure",
                cure="if an application reads, add the group to traffic.readers_without_members",
                costs=False,
            )


def _gaps(evidence: Evidence) -> Iterator[Finding]:
    for gap in evidence.report.gaps:
        if gap.what == HAND_OVER:  # it passes by itself
            continue
        yield Finding(
            code=Code.NOT_ALLOWED if gap.refused else Code.FAILED,
            where=f"{gap.what} {gap.where}".strip(),
            cause=gap.reason,
            cure=gap.consequence,
            costs=False,
        )


CHECKS: Final[tuple[Check, ...]] = (
    _brokers_without_rack,
    _selector,
    _members_without_rack,
    _racks,
    _own_rack,
    _followers_do_not_serve,
    at_random_baseline,
    no_common_protocol,
    group_full,
    broker_assigned,
    assignor_on_some_brokers,
    spread_over_racks,
    lag_in_racks,
    _no_reader,
    _gaps,
)
