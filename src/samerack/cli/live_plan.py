"""Plans a live group as the agent would, without joining it, and compares the plan with the present assignment.

The group is described and its topics are polled once. The result is a value, which `samerack plan` shows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from samerack.agent.policy.measured import shares_of
from samerack.assignors.consumer.registry import server_plan
from samerack.assignors.evaluate import Rates, known_crossing, known_crossing_by_member, row_of
from samerack.assignors.problem import NOBODY, AssignmentError, Cost, Int32Array, Problem, by_counts
from samerack.auth.kafka_config import for_kafka_python
from samerack.cli.asking import agent_says, hosts_known
from samerack.cli.live_group import asked_configs, how_led, measured_rates, subject_of
from samerack.cluster.broker_configs import ASSIGNOR
from samerack.cluster.group import topics_of
from samerack.cluster.metadata import read_metadata
from samerack.cluster.view import NoRack, SettledCluster, Settling, SettlingTimes, settle
from samerack.cluster.wire import BrokerClient
from samerack.common.errors import AgentError
from samerack.common.money import SECONDS_PER_MONTH
from samerack.common.records import FOLLOWING, LEADING
from samerack.common.weights import weights_of_rates
from samerack.planning import planner
from samerack.planning.curve import CurvePoint, points_of
from samerack.planning.members import PlanMember, placed
from samerack.planning.problem import Mode, mode_of, problem_of
from samerack.planning.rack_spread import RackSpread, rack_spread
from samerack.reporting.baseline import missing_change, sends_rack, server_assignment
from samerack.reporting.report import ServerAssignment
from samerack.reporting.verify_spread import (
    CURE_OF_COPARTITIONING,
    cure_of_uneven,
    members_uneven,
    rack_warnings,
    uneven_in_words,
)
from samerack.reporting.wanted import MembersWanted
from samerack.settings.all_settings import Settings
from samerack.settings.measuring import price_table

_WITHOUT_COPARTITIONING = (
    "the curve does not keep co-partitioned topics together, as plans for this group do: leading.max_skew works where "
    "leading.keep_copartitioned is never"
)
_OTHER_SETTINGS = (
    "planned by this command's settings, which may not be those of the running agent: give --config its file"
)
_LOADS_ARE_UNKNOWN = "leading.balance is {0}, and {0} are not measured: give --seconds, 30 or more"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigures:
    """A plan, or the present assignment, in figures.

    Attributes:
        cross_rack_share: by the plan's weights, and by bytes where they are measured; None if not known.
        load_above_least: how far the most loaded member is above a proven lower bound of the least possible, as a share
            of that; None where counts of partitions are balanced.
    """

    cost: Cost
    cross_rack_share: float | None
    load_above_least: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartitions:
    """A member's partitions under a plan, and those that it does not have now.

    What crosses racks of them is None where it is not known.
    """

    partitions: tuple[tuple[str, int], ...]
    cross_rack: int | None
    gained: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMember:
    """A member, where its rack is known from, and which replicas it reads."""

    id: str
    client_id: str
    rack: str | None
    rack_from: str
    reads: str
    present: OwnedPartitions
    proposed: OwnedPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class OverRacks:
    """How members and partitions are spread over racks; why plans read across them for that, and the cure, if so."""

    spread: RackSpread
    cause: str | None
    cure: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copartitioning:
    """What would cross racks if co-partitioned topics need not stay together; None where not measured."""

    cross_rack_share: float
    saved_bytes_per_second: float | None
    saved_dollars_per_month: float | None
    cure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePlan:
    """Everything that `samerack plan` shows of a group.

    Attributes:
        assigned_by: members or brokers.
        server: how brokers assign it; None if its members do.
        weighed_by: bytes or partitions.
        agent_leads: when an agent leads it.
        agent_only_observes, agent_is_paused: why the running agent does so; None if it does not, or none runs.
        over_racks: None where racks are not known.
        members_wanted: by the running agent; None where it does not know that, or none runs.
        copartitioning: None where it costs nothing to speak of.
        curve: None unless it is asked for, and there is one.
    """

    group: str
    protocol: str
    assigned_by: str
    server: ServerAssignment | None
    assignor: str
    weighed_by: str
    agent_leads: str
    agent_only_observes: str | None
    agent_is_paused: str | None
    replicas_that_serve: str
    over_racks: OverRacks | None
    present: PlanFigures
    proposed: PlanFigures
    copartitioning: Copartitioning | None
    warnings: tuple[str, ...]
    members: tuple[PlannedMember, ...]
    members_wanted: MembersWanted | None = None
    curve: tuple[CurvePoint, ...] | None = None


def to_json(plan: LivePlan) -> dict[str, Any]:
    """Return a plan as `samerack plan --json` prints it; what crosses racks is null if it is known of no partition."""
    answer = asdict(plan)
    for name, figures in (("present", plan.present), ("proposed", plan.proposed)):
        cost = figures.cost
        answer[name] = {
            **answer[name].pop("cost"),
            "cross_rack": cost.known_partitions_across,
            "cross_rack_weight": cost.known_cross_rack_weight if cost.known else None,
            **answer[name],
        }
    if plan.over_racks is not None:
        answer["over_racks"] = {**answer["over_racks"].pop("spread"), **answer["over_racks"]}
    if plan.curve is None:
        del answer["curve"]
    return answer


def examine(
    group: str,
    settings: Settings,
    assignor: planner.AssignorName,
    *,
    seconds: float = 0.0,
    with_curve: bool = False,
    has_settings: bool = True,
) -> LivePlan:
    """Return everything that `plan` shows; measured for some seconds, its shares are by bytes, else by partitions.

    `has_settings`: whether there are a file or variables, which may be those of a running agent.

    Raises:
        AgentError: The group is not there, reads no topics by assignment, or rebalances; or brokers do not answer.
    """
    hosts, unasked = hosts_known(settings, group)
    leading = settings.leading.of(group)
    rates = records = None
    with closing(BrokerClient(for_kafka_python(settings.kafka))) as wire:
        subject = subject_of(group, settings, wire, hosts)
        if subject.offered is not None and assignor == "range":
            raise AgentError(f"group {group}: the brokers assign it; --assignor range is for classic groups")
        if seconds and leading.uses_traffic:
            rates, records = measured_rates(group, settings, seconds)
            subject = subject_of(group, settings, wire, hosts)
        seen = read_metadata(wire, topics_of(one.topics for one in subject.members))
        aware, max_size, unknown = asked_configs(settings, wire, seen)
    cluster = settle(Settling(), seen, 0.0, SettlingTimes(change=0.0, leader=0.0)).state.settled
    mode = mode_of(subject.protocol, leading, rack_aware_fetch=aware, classic=subject.offered is None)
    members = placed(subject.members, cluster.racks)
    if not members:
        raise AgentError(f"group {group}: no member has a readable subscription")
    weights = None
    if rates is not None:
        weights = weights_of_rates(rates, records if leading.balance == "records" else None)
    problem = problem_of(members, cluster, mode, weights=weights)
    if subject.offered is None:
        made = planner.make_plan(problem, mode, prefer=assignor)
    else:
        made = _plan_of_brokers(problem, members)
    racks = {member.id: member.rack for member in members}
    now_above, then_above = made.uneven or (None, None)
    client_ids = {member.id: member.client_id for member in members}
    shares = shares_of(made, rates)
    said = agent_says(settings, group)
    role, trouble = said.get("role", ""), said.get("trouble", "")
    present, proposed = (per_member(made, owner) for owner in (problem.owner, made.final))
    curve: tuple[CurvePoint, ...] | None = None
    no_curve = ""
    if with_curve:
        try:
            curve = points_of(by_counts(problem), seconds=mode.deadline_seconds, rates=rates)
        except AssignmentError as error:
            no_curve = f"there is no curve, whose plans have leading.deadline_seconds each: {error}"
    server = None
    if subject.offered is not None:
        change = missing_change(*shares, static=all(member.instance_id is not None for member in members))
        server = server_assignment(subject.protocol, subject.offered, share=shares[1], change=change)
    return LivePlan(
        group=group,
        protocol=subject.protocol,
        assigned_by="members" if server is None else "brokers",
        server=server,
        assignor=made.assignor if server is None else ASSIGNOR,
        weighed_by="bytes" if weights else "partitions",
        agent_leads=how_led(
            subject.view, settings, role=role, trouble=trouble, saving=_saving(*shares), max_size=max_size
        ),
        agent_only_observes=(role != FOLLOWING and trouble) or None,
        agent_is_paused=said.get("paused") or None,
        replicas_that_serve="any replica in the member's rack" if aware else "leader replicas",
        over_racks=over_racks(
            rack_spread(problem, cluster, rates), elsewhere={rack.rack for rack in racks.values()} - cluster.racks.names
        ),
        present=PlanFigures(cost=made.before, cross_rack_share=shares[0], load_above_least=now_above),
        proposed=PlanFigures(cost=made.after, cross_rack_share=shares[1], load_above_least=then_above),
        members_wanted=said.get("members_wanted"),
        copartitioning=copartitioning(made, mode, settings, group, rates) if made.assignor == "optimal" else None,
        warnings=(
            *unknown,
            *filter(None, [unasked, no_curve]),
            *([_OTHER_SETTINGS] if role == LEADING and not has_settings else []),
            *unknown_racks([rack.named for rack in racks.values()], cluster),
            *rack_warnings([rack.named for rack in racks.values()], settings.racks, cluster.racks),
            *subject.unreadable,
            *([_LOADS_ARE_UNKNOWN.format(leading.balance)] if mode.balances_traffic and weights is None else []),
            *([_WITHOUT_COPARTITIONING] if curve is not None and mode.options.keep_copartitioned else []),
        ),
        members=tuple(
            PlannedMember(
                id=member,
                client_id=client_ids[member],
                rack=racks[member].rack,
                rack_from=racks[member].source,
                reads="any replica" if mode.rack_aware_fetch and racks[member].fetches_with_rack else "leaders",
                present=present[index],
                proposed=proposed[index],
            )
            for index, member in enumerate(problem.members)
        ),
        curve=curve,
    )


def copartitioning(
    made: planner.Plan, mode: Mode, settings: Settings, group: str, rates: Rates | None
) -> Copartitioning | None:
    """Return what would cross racks if co-partitioned topics need not stay together; None if that saves too little.

    Too little is what the policy would not rebalance the group for.
    """
    if not mode.options.keep_copartitioned:
        return None
    apart = planner.make_plan(made.problem, replace(mode, options=replace(mode.options, keep_copartitioned=False)))
    (_, together), (_, share) = shares_of(made, rates), shares_of(apart, rates)
    if together is None or share is None or together - share <= settings.policy.of(group).min_saving:
        return None
    saved = None
    if rates is not None:
        row = row_of(made.problem, rates)
        saved = known_crossing(made.problem, made.final, row) - known_crossing(made.problem, apart.final, row)
    price = price_table(settings.money)
    return Copartitioning(
        cross_rack_share=share,
        saved_bytes_per_second=saved,
        saved_dollars_per_month=None if saved is None else price.dollars(saved) * SECONDS_PER_MONTH,
        cure=CURE_OF_COPARTITIONING,
    )


def _saving(now: float | None, then: float | None) -> float | None:
    return None if now is None or then is None else now - then


def over_racks(spread: RackSpread | None, *, elsewhere: Collection[str | None]) -> OverRacks | None:
    """Return how members and partitions are spread over racks.

    Args:
        spread: the spread; None where racks are not known.
        elsewhere: racks of members that no broker is in: then that is the warning, and not how members are spread.
    """
    if spread is None:
        return None
    uneven = members_uneven(spread) and not elsewhere
    return OverRacks(
        spread=spread,
        cause=uneven_in_words(spread) if uneven else None,
        cure=cure_of_uneven(spread) if uneven else None,
    )


def _plan_of_brokers(problem: Problem, members: Sequence[PlanMember]) -> planner.Plan:
    """Return the plan of samerack's assignor in the brokers."""
    final = server_plan(problem, sends_rack(problem, members))
    return planner.Plan(problem=problem, final=final, sent=final, assignor="optimal", failure=None)


def unknown_racks(members: Sequence[str | None], cluster: SettledCluster) -> list[str]:
    """Return which racks are not known, so that the figures lack them, and the cure."""
    nowhere = sum(rack is None for rack in members)
    bare = sorted(broker for broker, rack in cluster.brokers.items() if rack is NoRack.UNSET)
    texts = []
    if nowhere:
        texts.append(
            f"{nowhere} of {len(members)} members have no rack: their cross-rack reads are unknown, and no plan can "
            "place them; set their client.rack, or their racks in racks.client_ids or racks.networks"
        )
    if bare:
        texts.append(
            f"brokers {', '.join(map(str, bare))} have no rack: cross-rack reads from them are unknown; set broker.rack"
        )
    return texts


def per_member(made: planner.Plan, owner: Int32Array) -> list[OwnedPartitions]:
    """Return each member's partitions with these owners."""
    problem = made.problem
    crossing = known_crossing_by_member(problem, owner)
    result = []
    for index in range(len(problem.members)):
        mine = np.flatnonzero(owner == index)
        result.append(
            OwnedPartitions(
                partitions=tuple((problem.topics[problem.topic_of[p]], int(problem.number_of[p])) for p in mine),
                cross_rack=crossing[index],
                gained=int(np.count_nonzero((problem.owner[mine] != index) & (problem.owner[mine] != NOBODY))),
            )
        )
    return result
