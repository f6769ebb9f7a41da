"""Finds the causes of avoidable cross-rack traffic: pure checks of one snapshot of measured traffic.

Each check is a function of the evidence and does not report what another check reports more precisely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from samerack.agent.reporting.costs import broker_racks
from samerack.agent.reporting.findings import Code, Finding, Verdict
from samerack.agent.reporting.report import GroupCost, Report
from samerack.agent.reporting.verify_racks import rack_names
from samerack.agent.reporting.verify_replicas import share_with_every_replica, worst_topics
from samerack.cluster.view import NoRack
from samerack.common.money import SECONDS_PER_MONTH
from samerack.common.settings import LeadingSettings
from samerack.traffic.model import GroupTraffic, TrafficSnapshot

LEAST_SHARE: Final = 0.05
"""Shares that differ by less than this are treated as equal: five points, the default of `policy.min_saving`."""
_NEAR_RANDOM: Final = 0.9
"""A share of at least this part of the random one counts as random."""
_CONSUMER: Final = "consumer"
_STREAMS: Final = "streams"
_CLASSIC: Final = "classic"
_SAFE_TO_OFFER: Final = LeadingSettings().protocols
_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The input of the checks: the snapshot, its report, the settings to lead, and the agent's rack ("": unknown)."""

    snapshot: TrafficSnapshot
    report: Report
    leading: LeadingSettings
    own_rack: str = ""

    @property
    def pairs(self) -> Iterator[tuple[GroupTraffic, GroupCost]]:
        """Each group that has members, with its cost."""
        costs: Mapping[str, GroupCost] = {cost.group: cost for cost in self.report.groups}
        return ((group, costs[group.group]) for group in self.snapshot.groups if group.members)

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


Check = Callable[[Evidence], Iterator[Finding]]


def verdict(evidence: Evidence) -> Verdict:
    """Returns all findings, the most expensive first."""
    free = evidence.report.prices.dollars_per_byte == 0
    found = [finding for check in CHECKS for finding in check(evidence)]
    explained = {finding.where for finding in found}
    found += [finding for finding in _avoidable(evidence) if finding.where not in explained]
    if free:
        found = [_at_no_cost(finding) for finding in found]
    found.sort(key=lambda finding: (not finding.costs, -(finding.dollars_per_month or 0.0)))
    return Verdict(
        findings=tuple(found),
        groups=len(evidence.snapshot.groups),
        brokers=len(evidence.snapshot.cluster.brokers),
        window_seconds=evidence.snapshot.window_seconds,
        prices=evidence.report.prices.title,
        bootstrap=evidence.report.bootstrap,
    )


def _at_no_cost(finding: Finding) -> Finding:
    return Finding(code=finding.code, where=finding.where, cause=finding.cause, cure=finding.cure, costs=False)


def in_group(group: GroupTraffic) -> str:
    """Returns the name of a group in findings."""
    return f"group {group.group}"


def _brokers_without_rack(evidence: Evidence) -> Iterator[Finding]:
    brokers = evidence.snapshot.cluster.brokers
    bare = sorted(broker for broker, rack in brokers.items() if rack is NoRack.UNSET)
    if bare:
        yield Finding(
            code=Code.BROKERS_WITHOUT_RACK,
            where=f"broker{'s' if len(bare) > 1 else ''} {', '.join(map(str, bare))}",
            cause=f"{len(bare)} of {len(brokers)} brokers have no broker.rack: no consumer is near their replicas",
            cure="set broker.rack to the broker's availability zone and restart the brokers one by one",
            costs=True,
        )


def _selector(evidence: Evidence) -> Iterator[Finding]:
    spread = any(
        len(partition.replicas) > 1 for topic in evidence.snapshot.cluster.topics.values() for partition in topic
    )
    if evidence.snapshot.rack_aware_fetch is False and spread and len(evidence.racks) > 1:
        yield Finding(
            code=Code.NO_RACK_AWARE_SELECTOR,
            where="brokers",
            cause="not every broker has a rack-aware replica.selector.class: consumers read from leaders only, "
            "although topics have replicas in other racks",
            cure=f"set replica.selector.class={_SELECTOR} on every broker and restart them one by one (KIP-392)",
            costs=True,
        )


def _members_without_rack(evidence: Evidence) -> Iterator[Finding]:
    for group, cost in evidence.pairs:
        bare = [member for member in group.members if member.rack.rack is None]
        if not bare or len(evidence.racks) < 2:
            continue
        names = ", ".join(sorted({member.client_id for member in bare})[:3])
        rate = cost.unknown_bytes * (cost.random_share or 0.0)
        yield Finding(
            code=Code.MEMBERS_WITHOUT_RACK,
            where=in_group(group),
            cause=f"{len(bare)} of {len(group.members)} members have no rack ({names}): they get any partition",
            cure="set client.rack to the member's availability zone, or name its rack in racks.client_ids or "
            "racks.networks",
            costs=True,
            dollars_per_month=_monthly(evidence, rate),
        )


def _racks(evidence: Evidence) -> Iterator[Finding]:
    for group, cost in evidence.pairs:
        members = {member.rack.rack for member in group.members if member.rack.rack is not None}
        for name in rack_names(members, set(evidence.racks), complete=evidence.racks_complete):
            yield Finding(
                code=name.code,
                where=in_group(group),
                cause=name.cause,
                cure=name.cure,
                costs=True,
                dollars_per_month=_monthly(evidence, cost.cross_rack_bytes),
            )


def _own_rack(evidence: Evidence) -> Iterator[Finding]:
    """Checks this pod's rack, which applications next to it also use: from the same label, file or variable."""
    own = {evidence.own_rack} - {""}
    for name in rack_names(own, set(evidence.racks), complete=evidence.racks_complete):
        yield Finding(
            code=name.code,
            where="this pod",
            cause=f"its rack {evidence.own_rack!r} is none of a broker; they are in {', '.join(evidence.racks[:3])}",
            cure="say in pod.zones which rack of the brokers that is; `samerack rack --why` shows where it is from",
            costs=True,
        )


def _at_random(evidence: Evidence) -> Iterator[Finding]:
    for group, cost in evidence.pairs:
        shares = group.shares
        if shares.present_bytes is None or not shares.random or _avoidable_share(group) is None:
            continue
        if group.kind == _CONSUMER:
            continue  # the brokers assign it, which is another finding
        if shares.present_bytes >= _NEAR_RANDOM * shares.random and all(member.rack.rack for member in group.members):
            yield Finding(
                code=Code.AT_RANDOM_BASELINE,
                where=in_group(group),
                cause=f"its members have racks, but {shares.present_bytes:.0%} of its bytes cross racks, as at random "
                f"({shares.random:.0%}); {shares.optimal or 0:.0%} would do. Its assignor {group.assignor or '-'} "
                "does not heed racks, or its members do not fetch with theirs",
                cure=_how_to_lead(group),
                costs=True,
                dollars_per_month=_avoidable_dollars(evidence, group, cost),
            )


def _protocols(evidence: Evidence) -> Iterator[Finding]:
    for group, _ in evidence.pairs:
        if group.kind == _CLASSIC and group.assignor and group.assignor not in evidence.leading.protocols:
            yield Finding(
                code=Code.NO_COMMON_PROTOCOL,
                where=in_group(group),
                cause=f"its members share only {group.assignor!r}, which the agent does not offer "
                f"({', '.join(evidence.leading.protocols)}): it cannot join, and members with another assignor cannot "
                "either",
                cure=_how_to_share(group.assignor, evidence.leading.protocols),
                costs=_avoidable_share(group) is not None,
            )


def _how_to_share(assignor: str, offered: Sequence[str]) -> str:
    """Returns how a group can change to a protocol that the agent offers."""
    change = (
        f"give all members a common assignor, {offered[0]} for instance (two rolling restarts: first with both names, "
        "then with the new one)"
    )
    # does not suggest offering others: leaders with some assignors fail on a member without the expected user data
    return f"add {assignor!r} to leading.protocols, or {change}" if assignor in _SAFE_TO_OFFER else change


def _broker_assigned(evidence: Evidence) -> Iterator[Finding]:
    for group, cost in evidence.pairs:
        if group.kind == _CONSUMER and _avoidable_share(group) is not None:
            yield Finding(
                code=Code.BROKER_ASSIGNED,
                where=in_group(group),
                cause=f"the brokers assign it (KIP-848, {group.assignor or 'uniform'}) without regard to racks: "
                f"{_present(group):.0%} crosses racks, {group.shares.optimal or 0:.0%} would do",
                cure="go back to group.protocol=classic and let samerack lead the group, or give the brokers a "
                "rack-aware group.consumer.assignors",
                costs=True,
                dollars_per_month=_avoidable_dollars(evidence, group, cost),
            )


def _replicas(evidence: Evidence) -> Iterator[Finding]:
    for group, cost in evidence.pairs:
        if group.problem is None or (group.shares.optimal or 0.0) <= LEAST_SHARE:
            continue
        if not {member.rack.rack for member in group.members} & set(evidence.racks):
            continue  # rack names that never match are another finding
        least = share_with_every_replica(group.problem)
        if least is not None and least > LEAST_SHARE:
            yield Finding(
                code=Code.REPLICAS_PREVENT_LOCALITY,
                where=in_group(group),
                cause=f"at least {least:.0%} has to cross racks in any balanced plan: {worst_topics(group.problem)}",
                cure="give these topics a replica in each rack (replication factor = racks) or place them where the "
                "members are; or spread the members over the racks evenly",
                costs=True,
                dollars_per_month=_monthly(evidence, least * (cost.wire_bytes - cost.unknown_bytes)),
            )


def _gaps(evidence: Evidence) -> Iterator[Finding]:
    for gap in evidence.report.gaps:
        yield Finding(
            code=Code.NOT_ALLOWED if gap.refused else Code.FAILED,
            where=f"{gap.what} {gap.where}".strip(),
            cause=gap.reason,
            cure=gap.consequence,
            costs=False,
        )


def _avoidable(evidence: Evidence) -> Iterator[Finding]:
    for group, cost in evidence.pairs:
        if _avoidable_share(group) is not None:
            yield Finding(
                code=Code.AVOIDABLE,
                where=in_group(group),
                cause=f"{_present(group):.0%} crosses racks, {group.shares.optimal or 0:.0%} would do",
                cure=_how_to_lead(group),
                costs=True,
                dollars_per_month=_avoidable_dollars(evidence, group, cost),
            )


CHECKS: Final[tuple[Check, ...]] = (
    _brokers_without_rack,
    _selector,
    _members_without_rack,
    _racks,
    _own_rack,
    _at_random,
    _protocols,
    _broker_assigned,
    _replicas,
    _gaps,
)


def _present(group: GroupTraffic) -> float:
    """Returns the share that crosses racks now, by bytes if the optimum is by bytes too."""
    shares = group.shares
    by_bytes = shares.present_bytes is not None and shares.optimal_by == "bytes"
    return (shares.present_bytes if by_bytes else shares.present_partitions) or 0.0


def _avoidable_share(group: GroupTraffic) -> float | None:
    """Returns the share that crosses racks beyond the best plan; None if it is at most LEAST_SHARE."""
    if group.shares.optimal is None:
        return None
    saving = _present(group) - group.shares.optimal
    return saving if saving > LEAST_SHARE else None


def _avoidable_dollars(evidence: Evidence, group: GroupTraffic, cost: GroupCost) -> float | None:
    return _monthly(evidence, (_avoidable_share(group) or 0.0) * (cost.wire_bytes - cost.unknown_bytes))


def _monthly(evidence: Evidence, crossing_bytes: float) -> float | None:
    """Returns dollars a month for so many bytes in the window."""
    window = evidence.snapshot.window_seconds
    return evidence.report.prices.dollars(crossing_bytes) / window * SECONDS_PER_MONTH if window > 0 else None


def _how_to_lead(group: GroupTraffic) -> str:
    if group.kind == _CLASSIC:
        return (
            f"let the agent lead it: `samerack run --group {group.group}`; `samerack plan {group.group}` shows the plan"
        )
    if group.kind == _STREAMS:
        return (
            "the brokers assign its tasks (KIP-1071) and know no racks; rack.aware.assignment.strategy has no effect "
            "with group.protocol=streams. With group.protocol=classic set it and client.rack"
        )
    return "Kafka Streams: set rack.aware.assignment.strategy and client.rack; `samerack streams` compares strategies"
