"""Plans a live group as the agent would, without joining it, and compares the plan with the present assignment.

The group is described and its topics are polled once. The result is JSON values, which `samerack plan` shows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from glob import escape
from typing import Any

import numpy as np
from kafka import errors as kafka_errors

from samerack.agent.leading.admission import is_settled
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.prospect import prospect
from samerack.agent.policy.measured import Rates, shares_of
from samerack.agent.reporting.server_assignment import server_assignment
from samerack.agent.reporting.shares import MIN_SHARE
from samerack.assignors.consumer.own import server_plan
from samerack.assignors.consumer.registry import Options
from samerack.assignors.evaluate import cross_rack_mask, evaluate
from samerack.assignors.model import NOBODY, Int32Array, Problem
from samerack.cli.asking import hosts_known
from samerack.cli.curve import points_of
from samerack.cluster.broker_configs import read_broker_configs
from samerack.cluster.client import close, connect
from samerack.cluster.group import CONSUMER, GroupView, topics_of
from samerack.cluster.group_type import GroupTypes
from samerack.cluster.metadata import look
from samerack.cluster.racks import Hosts, rack_warnings
from samerack.cluster.server_assignors import ASSIGNOR, ServerAssignors, from_values
from samerack.cluster.view import ClusterView, NoRack, Settling, SettlingTimes, settle
from samerack.cluster.wire import Wire
from samerack.common.errors import AgentError, one_line
from samerack.common.kafka_config import for_kafka_python
from samerack.common.settings import Settings
from samerack.planning import planner
from samerack.planning.members import PlanMember, members_of_view
from samerack.planning.mode import mode_of
from samerack.planning.problem import problem_of
from samerack.protocol.model import Subscription
from samerack.traffic.describe import described, listed
from samerack.traffic.evenness import busiest, topic_share
from samerack.traffic.groups import ObservedGroup, managed
from samerack.traffic.watch import observe
from samerack.traffic.weights import weights_of_rates

_CONSUMER_TYPE = "consumer"
_REBALANCE_SECONDS = 15.0
_PAUSE_SECONDS = 0.25
_WITHOUT_COPARTITIONING = (
    "the curve does not keep co-partitioned topics together, as plans for this group do: leading.max_skew works where "
    "leading.keep_copartitioned is never"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A group to plan.

    Attributes:
        protocol: the protocol name of its members, or the assignor of the brokers.
        members: its members with what they have now.
        agent_leads: how an agent comes to lead it.
        unreadable: what of its members cannot be read.
        offered: the assignors of the brokers, if these assign it; else None.
    """

    protocol: str
    members: tuple[PlanMember, ...]
    agent_leads: str
    unreadable: tuple[str, ...] = ()
    offered: ServerAssignors | None = None


def describe(group: str, settings: Settings) -> GroupView:
    """Returns a description of the group by name; waits some seconds for a rebalance to end.

    Raises:
        AgentError: No broker answers, or not allowed.
    """
    client = connect(for_kafka_python(settings.kafka))
    try:
        membership = Membership(client, group=group, settings=settings.leading, assign=lambda _: {}, wake=lambda: None)
        until = time.monotonic() + _REBALANCE_SECONDS
        while not is_settled(view := membership.describe_patiently()) and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)
        return view  # noqa: TRY300 - an else would hide that the loop belongs to the try
    except kafka_errors.KafkaError as error:
        raise AgentError(f"group {group}: {one_line(error)}") from error
    finally:
        close(client)


def measured_rates(group: str, settings: Settings, seconds: float) -> Rates | None:
    """Measures the wire bytes per second of the group's partitions; None if partitions are not weighed by bytes."""
    if settings.leading.weigh_by != "bytes":
        return None
    traffic = settings.traffic.model_copy(update={"groups": (escape(group),)})
    snapshot = observe(settings.model_copy(update={"traffic": traffic}), seconds=seconds)
    return {
        (one.topic, one.number): one.bytes_per_second
        for measured in snapshot.groups
        for one in measured.partitions
        if one.bytes_per_second is not None
    }


def examine(
    group: str,
    settings: Settings,
    assignor: planner.AssignorName,
    *,
    rates: Rates | None = None,
    with_curve: bool = False,
) -> dict[str, Any]:
    """Returns everything that `plan` shows, as JSON values; with rates the shares are by bytes, else by partitions.

    Raises:
        AgentError: The group is not there, reads no topics by assignment, or rebalances; or brokers do not answer.
    """
    hosts, unasked = hosts_known(settings, group)
    with closing(Wire(for_kafka_python(settings.kafka))) as wire:
        subject = _subject(group, settings, wire, hosts)
        if subject.offered is not None and assignor == "range":
            raise AgentError(f"group {group}: is assigned by the brokers; --assignor range is for classic groups")
        seen = look(wire, topics_of(one.subscription for one in subject.members))
        aware, unknown = _rack_aware(settings, wire, seen)
    cluster = settle(Settling(), seen, 0.0, SettlingTimes(change=0.0, leader=0.0)).state.settled
    mode = mode_of(subject.protocol, settings.leading, rack_aware_fetch=aware)
    members = [member for member in subject.members if member.instance_id != settings.leading.instance_id]
    if not members:
        raise AgentError(f"group {group}: has no members with a readable subscription")
    weights = weights_of_rates(rates) if rates is not None else None
    problem = problem_of(members, cluster, mode, weights=weights)
    if subject.offered is None:
        made = planner.make_plan(problem, mode, prefer=assignor)
    else:
        made = _plan_of_brokers(problem, members)
    racks = {member.id: member.rack for member in members}
    shares = shares_of(made, rates)
    brokers = {rack for rack in cluster.brokers.values() if not isinstance(rack, NoRack)}
    present, proposed = (_per_member(made, owner) for owner in (problem.owner, made.final))
    return {
        "group": group,
        "protocol": subject.protocol,
        "assigned_by": "members" if subject.offered is None else "brokers",
        "server": None
        if subject.offered is None
        else asdict(server_assignment(subject.protocol, subject.offered, share=shares[1], late=_late(shares))),
        "assignor": made.assignor if subject.offered is None else ASSIGNOR,
        "weighed_by": "bytes" if weights else "partitions",
        "agent_leads": subject.agent_leads,
        "replicas_that_serve": "any replica in the member's rack" if aware else "leader replicas",
        "present": {**asdict(made.before), "cross_rack_share": shares[0], **_evenness(problem, problem.owner, rates)},
        "proposed": {**asdict(made.after), "cross_rack_share": shares[1], **_evenness(problem, made.final, rates)},
        "warnings": [
            *unknown,
            *filter(None, [unasked]),
            *rack_warnings({rack.rack for rack in racks.values() if rack.rack is not None}, brokers),
            *subject.unreadable,
            *([_WITHOUT_COPARTITIONING] if with_curve and mode.keep_copartitioned else []),
        ],
        "members": [
            {
                "id": member,
                "rack": racks[member].rack,
                "rack_from": racks[member].source,
                "reads": "any replica" if mode.rack_aware_fetch and racks[member].fetches_with_rack else "leaders",
                "present": present[index],
                "proposed": proposed[index],
            }
            for index, member in enumerate(problem.members)
        ],
        **({"curve": points_of(problem, Options(), seconds=mode.deadline_seconds, rates=rates)} if with_curve else {}),
    }


def _evenness(problem: Problem, owner: Int32Array, rates: Rates | None) -> dict[str, Any]:
    """Returns how evenly members read under a plan; None where it is not known."""
    subscriptions = {
        member: [topic for topic, wanted in zip(problem.topics, problem.subscriptions[reader], strict=True) if wanted]
        for member, reader in zip(problem.members, problem.subscription_of.tolist(), strict=True)
    }
    owned = [
        (problem.members[at], problem.topics[topic], number)
        for at, topic, number in zip(owner.tolist(), problem.topic_of.tolist(), problem.number_of.tolist(), strict=True)
        if at != NOBODY
    ]
    share = topic_share(((member, topic) for member, topic, _ in owned), subscriptions)
    most = busiest(((member, (rates or {}).get((topic, number))) for member, topic, number in owned), problem.members)
    return {
        "topic_share": None if share is None else asdict(share),
        "busiest": None if most is None else asdict(most),
    }


def _subject(group: str, settings: Settings, wire: Wire, hosts: Hosts) -> _Subject:
    """Returns the group as it is described, which is stable.

    Raises:
        AgentError: It cannot be planned.
    """
    kind = GroupTypes(wire).find(group)
    if kind == _CONSUMER_TYPE:
        return _assigned_by_brokers(group, settings, wire, hosts)
    if kind != "classic":
        raise AgentError(f"group {group}: is of type {kind}; only classic and consumer groups can be planned")
    view = describe(group, settings)
    if view.state == "Dead":
        raise AgentError(f"group {group}: does not exist; check the name and bootstrap.servers")
    if view.protocol_type not in ("", CONSUMER):
        raise AgentError(
            f"group {group}: has protocol type {view.protocol_type!r}; only consumer groups can be planned"
        )
    if not view.stable:
        raise AgentError(f"group {group}: is {view.state}; it needs members and no rebalance under way: try again")
    return _Subject(
        protocol=view.protocol,
        members=members_of_view(view, settings.racks, hosts),
        agent_leads=prospect(view, settings.leading),
        unreadable=tuple(f"member {member.id}: {member.unreadable}" for member in view.members if member.unreadable),
    )


def _assigned_by_brokers(group: str, settings: Settings, wire: Wire, hosts: Hosts) -> _Subject:
    """Returns a group of the new protocol (KIP-848); waits some seconds for its members to have what they should."""
    brokers = look(wire, ()).brokers
    until = time.monotonic() + _REBALANCE_SECONDS
    while True:
        found, gaps = listed(wire, brokers, [escape(group)])
        told = described(
            wire, found.values(), classic=_unexpected, consumer=partial(managed, racks=settings.racks, hosts=hosts)
        )
        seen = next(iter(told.groups), None)
        if seen is not None and seen.state == "Stable":
            break
        if time.monotonic() > until:
            reasons = "; ".join(gap.reason for gap in (*gaps, *told.gaps))
            state = f"is {seen.state}; it needs members and no rebalance under way: try again" if seen else reasons
            raise AgentError(f"group {group}: {state or 'is not described by any broker'}")
        time.sleep(_PAUSE_SECONDS)
    try:
        offered = from_values(read_broker_configs(wire, brokers).assignors)
    except AgentError as error:
        offered = ServerAssignors(unknown=str(error))
    return _Subject(
        protocol=seen.assignor,
        members=tuple(
            PlanMember(
                id=member.id,
                instance_id=member.instance_id,
                subscription=Subscription(topics=tuple(sorted(member.topics))),
                rack=member.rack,
                owned=member.owned,
            )
            for member in seen.members
        ),
        agent_leads="never: the brokers assign it (KIP-848)",
        offered=offered,
    )


def _unexpected(raw: Any) -> ObservedGroup:
    raise AgentError(f"group {raw.group_id}: has just become a classic group: try again")


def _plan_of_brokers(problem: Problem, members: Sequence[PlanMember]) -> planner.Plan:
    """Returns the plan of samerack's assignor in the brokers."""
    sending = {member.id for member in members if member.rack.source == "subscription"}
    final = server_plan(problem, np.array([member in sending for member in problem.members], dtype=np.bool_))
    before, after = evaluate(problem, problem.owner), evaluate(problem, final)
    return planner.Plan(
        problem=problem, final=final, sent=final, assignor="optimal", before=before, after=after, failure=None
    )


def _late(shares: tuple[float, float]) -> bool:
    return shares[0] - shares[1] > MIN_SHARE


def _rack_aware(settings: Settings, wire: Wire, seen: ClusterView) -> tuple[bool, list[str]]:
    """Returns whether any replica in a member's rack serves it, and why that is not known: then only leaders count."""
    selector = settings.racks.replica_selector
    if selector != "auto":
        return selector == "rack-aware", []
    try:
        return read_broker_configs(wire, seen.brokers).rack_aware, []
    except AgentError as error:
        return False, [f"only leader replicas count as near, as for an agent that runs: {error}"]


def _per_member(made: planner.Plan, owner: Int32Array) -> list[dict[str, Any]]:
    problem = made.problem
    cross = cross_rack_mask(problem, owner)
    result = []
    for index in range(len(problem.members)):
        mine = np.flatnonzero(owner == index)
        result.append(
            {
                "partitions": [[problem.topics[problem.topic_of[p]], int(problem.number_of[p])] for p in mine],
                "cross_rack": int(np.count_nonzero(cross[mine])),
                "gained": int(np.count_nonzero((problem.owner[mine] != index) & (problem.owner[mine] != NOBODY))),
            }
        )
    return result
