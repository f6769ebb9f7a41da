"""The findings of `samerack verify`, the input of its checks, and what a group would read if one thing were other.

The input is a snapshot of measured traffic, its report, and figures of both. A cure changes a group's problem: where
members are, what may serve them, where replicas are; by that each cure has its price. Partitions stay with their
owners, unless the agent leads the group: it would plan anew. A member whose rack nobody knows is taken to be in each
rack of the brokers alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Final, Literal, TypeAlias

import numpy as np

from samerack.assignors.build import with_racks
from samerack.assignors.evaluate import cross_rack_mask, row_of
from samerack.assignors.problem import NOBODY, AssignmentError, BoolArray, FloatArray, Int32Array, Problem
from samerack.common.money import per_month
from samerack.common.records import LEADING, JsonAnswer
from samerack.planning.deadline import assign_aside
from samerack.planning.rack_spread import broker_racks
from samerack.reporting.costs import ServedElsewhere, served_elsewhere
from samerack.reporting.report import CostSums, GroupCost, Report
from samerack.settings.leading import LeadingSettings
from samerack.traffic.snapshot import UNPLANNED_KINDS, GroupTraffic, TrafficSnapshot

MeasuredBy: TypeAlias = Literal["command", "leading-agent", "observing-agent"]


class Code(Enum):
    """The kinds of findings; the value is the label in metrics and JSON."""

    BROKERS_WITHOUT_RACK = "brokers-without-rack"
    NO_RACK_AWARE_SELECTOR = "no-rack-aware-selector"
    MEMBERS_WITHOUT_RACK = "members-without-rack"
    RACK_ONLY_IN_FETCH = "rack-only-in-fetch"
    RACKS_DIFFER_IN_CASE = "racks-differ-in-case"
    RACKS_NEVER_MEET = "racks-never-meet"
    ZONE_NAME_AGAINST_ID = "zone-name-against-id"
    FOLLOWERS_DO_NOT_SERVE = "followers-do-not-serve"
    AT_RANDOM_BASELINE = "at-random-baseline"
    NO_COMMON_PROTOCOL = "no-common-protocol"
    GROUP_FULL = "group-full"
    BROKER_ASSIGNED = "broker-assigned-without-racks"
    ASSIGNOR_ON_SOME_BROKERS = "assignor-on-some-brokers"
    UNEVEN_OVER_RACKS = "uneven-over-racks"
    COPARTITIONING = "copartitioning"
    REPLICAS_PREVENT_LOCALITY = "replicas-prevent-locality"
    AVOIDABLE = "avoidable-traffic"
    LAG_GROWS_IN_RACK = "lag-grows-in-rack"
    NO_READER = "no-reader"
    NOT_ALLOWED = "not-allowed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem.

    Attributes:
        where: the group, brokers or request that it concerns.
        cause: what is wrong, with the figures that show it.
        costs: whether it causes avoidable cross-rack traffic at a price above zero.
        dollars_per_month: what its cure alone would save now; two cures of the same bytes each have all of them. None
            if not known.
        guessed: whether that is what it may come to, as the racks that members would have are not known.
    """

    code: Code
    where: str
    cause: str
    cure: str
    costs: bool = True
    dollars_per_month: float | None = None
    guessed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings(CostSums):
    """All findings at one moment, with the sums of the report.

    Attributes:
        findings: those that cost money first, of them the one whose cure alone saves most.
        window_seconds: how long bytes were measured.
        prices: the price table, in one line.
        bootstrap: `bootstrap.servers` of the checked cluster.
    """

    findings: tuple[Finding, ...]
    groups: int
    brokers: int
    window_seconds: float
    prices: str
    bootstrap: str

    @property
    def first(self) -> Finding | None:
        """The finding whose cure alone saves most now; None if none is known to save anything."""
        return next((finding for finding in self.findings if finding.costs and finding.dollars_per_month), None)

    @property
    def costs(self) -> bool:
        """Whether anything costs money."""
        return any(finding.costs for finding in self.findings)


_FINDINGS: Final = JsonAnswer(Findings, "is not a list of findings")
findings_to_json, findings_from_json = _FINDINGS.to_json, _FINDINGS.from_json
"""The JSON of `GET /v1/findings` and `samerack verify --json`."""


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
        return broker_racks(self.snapshot.cluster)

    @property
    def racks_complete(self) -> bool:
        """Whether the rack of every broker that has a replica is known."""
        return self.snapshot.cluster.racks.complete


def in_group(group: GroupTraffic) -> str:
    """Return the name of a group in findings."""
    return f"group {group.group}"


def dollars_per_month(evidence: Evidence, crossing_bytes: float) -> float | None:
    """Return the dollars per month for this number of bytes in the window; None before a measurement."""
    return per_month(evidence.report.prices.dollars(crossing_bytes), evidence.snapshot.window_seconds)


Cure: TypeAlias = Callable[[Problem], Problem]
"""Returns a group's problem as a cure makes it."""


def saved(
    evidence: Evidence, group: GroupTraffic, cost: GroupCost, cure: Cure, *, beside: Cure | None = None
) -> float | None:
    """Return the dollars a month that a cure alone saves now, or saves beside another one; None if not known.

    What the members in each rack read has its own measured bytes, also what those read whose rack is unknown.
    """
    problem = group.problem
    if problem is None or cost.unknown_bytes is None or not evidence.racks or not evidence.racks_complete:
        return None
    bare = problem.member_rack == NOBODY
    problem = with_racks(replace(problem, reads_any_replica=problem.reads_any_replica & ~bare), evidence.racks)
    readers = np.append(problem.member_rack, np.int32(NOBODY))[problem.owner]  # the rack of each owner now
    if beside is not None:
        problem = beside(problem)
    rates = row_of(problem, group.long_run_rates)
    row = rates if rates.any() else np.ones(len(problem.owner))
    less = row * (_crossing(evidence, cost, problem, row) - _crossing(evidence, cost, cure(problem), row))
    owned = problem.owner != NOBODY
    if not owned.any():
        return None
    nearer = 0.0
    for rack, size in _read_in_racks(group).items():
        mine = owned & (readers == (problem.racks.index(rack) if rack in problem.racks else NOBODY))
        nearer += float(less[mine].sum()) / float(row[mine].sum()) * size if row[mine].any() else 0.0
    at_most = (cost.cross_rack_bytes or 0) + cost.unknown_bytes
    return dollars_per_month(evidence, min(max(0, round(nearer)), at_most))


def _read_in_racks(group: GroupTraffic) -> Mapping[str, int]:
    """Return what members in each rack, "" if unknown, read from replicas with known racks, in bytes."""
    sizes: Counter[str] = Counter()
    for flow in group.flows:
        if flow.key.replica_rack:
            sizes[flow.key.client_rack] += flow.volume.wire_bytes
    return sizes


def priced(evidence: Evidence, group: GroupTraffic, cost: GroupCost, finding: Finding, cure: Cure) -> Finding:
    """Return a finding with the price of its cure alone; one that saves nothing says which it needs first, if any."""
    alone = saved(evidence, group, cost, cure)
    if alone is None or alone > 0:
        return replace(finding, dollars_per_month=alone)
    selector = evidence.snapshot.rack_aware_fetch is False and saved(
        evidence, group, cost, cure, beside=fetching(fetchers(group))
    )
    return needing(finding, Code.NO_RACK_AWARE_SELECTOR.value if selector else "")


def needing(finding: Finding, first: str) -> Finding:
    """Return a finding whose cure alone saves nothing now, with what it needs first; without that it costs nothing."""
    if not first:
        cause = f"{finding.cause}. Its cure alone saves nothing now"
        return replace(finding, costs=False, dollars_per_month=0.0, cause=cause)
    return replace(finding, dollars_per_month=0.0, cure=f"alone this saves nothing now, first {first}: {finding.cure}")


def fetchers(group: GroupTraffic) -> frozenset[str]:
    """Return the members that are known to fetch with their rack."""
    return frozenset(member.id for member in group.members if member.rack.fetches_with_rack)


def fetching(members: Collection[str]) -> Cure:
    """Return the cure by which any replica in their rack serves these members."""
    return lambda problem: replace(problem, reads_any_replica=problem.reads_any_replica | _among(problem, members))


def unserved(problem: Problem, members: Collection[str]) -> Problem:
    """Return the problem as it is while leaders alone serve these members."""
    return replace(problem, reads_any_replica=problem.reads_any_replica & ~_among(problem, members))


def placed(members: Collection[str]) -> Cure:
    """Return the cure by which these members are in the racks of replicas in turn."""

    def cure(problem: Problem) -> Problem:
        mine = _among(problem, members)
        racks = np.flatnonzero(problem.replica_racks.any(axis=0))
        member_rack = problem.member_rack.copy()
        member_rack[mine] = np.resize(racks if len(racks) else np.array([NOBODY]), int(mine.sum()))
        return replace(problem, member_rack=member_rack)

    return cure


def in_racks(members: Mapping[str, str]) -> Cure:
    """Return the cure by which these members are in the named racks of brokers."""

    def cure(problem: Problem) -> Problem:
        racks = [problem.racks.index(members[member]) if member in members else NOBODY for member in problem.members]
        mine = _among(problem, members)
        return replace(problem, member_rack=np.where(mine, np.array(racks, np.int32), problem.member_rack))

    return cure


def replicas_in(racks: Collection[str]) -> Cure:
    """Return the cure by which each partition has a replica in each of these racks."""
    return lambda problem: replace(
        problem, replica_racks=problem.replica_racks | np.array([rack in racks for rack in problem.racks], np.bool_)
    )


def _among(problem: Problem, members: Collection[str]) -> BoolArray:
    """Return [M] which of the problem's members are among these."""
    return np.array([member in members for member in problem.members], np.bool_)


def _crossing(evidence: Evidence, cost: GroupCost, problem: Problem, row: FloatArray) -> FloatArray:
    """Return [P] the probability that a partition is read across racks; `row` [P] is what is read of each."""
    now = _expected(evidence, problem, problem.owner)
    if cost.role != LEADING:
        return now
    try:
        planned = _expected(evidence, problem, assign_aside("optimal", problem))
    except AssignmentError:
        return now
    return planned if float(row @ planned) < float(row @ now) else now


def _expected(evidence: Evidence, problem: Problem, owner: Int32Array) -> FloatArray:
    crossing = cross_rack_mask(problem, owner) & (problem.leader_rack != NOBODY)
    anywhere = (owner != NOBODY) & (problem.member_rack[owner] == NOBODY)
    brokers = np.array([rack in evidence.racks for rack in problem.racks], np.bool_)
    near = np.where(problem.reads_any_replica[owner], problem.replica_racks[:, brokers].sum(axis=1), 1)
    expected: FloatArray = np.where(anywhere, 1.0 - near / len(evidence.racks), crossing)
    return expected
