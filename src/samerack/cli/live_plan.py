"""Plans a live group as the agent would, without joining it, and compares the plan with the present assignment.

The group is described and its topics are polled once. The result is JSON values, which `samerack plan` shows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from samerack.agent.policy.measured import shares_of
from samerack.assignors.consumer.own import server_plan
from samerack.assignors.consumer.registry import Options
from samerack.assignors.evaluate import known_crossing_by_member
from samerack.assignors.problem import NOBODY, Cost, Int32Array, Problem
from samerack.auth.kafka_config import for_kafka_python
from samerack.cli.asking import agent_says, hosts_known
from samerack.cli.plan_subject import how_led, subject_of
from samerack.cluster.broker_configs import read_broker_configs
from samerack.cluster.group import topics_of
from samerack.cluster.metadata import read_metadata
from samerack.cluster.server_assignors import ASSIGNOR
from samerack.cluster.view import ClusterView, NoRack, SettledCluster, Settling, SettlingTimes, settle
from samerack.cluster.wire import Wire
from samerack.common.errors import AgentError
from samerack.common.money import SECONDS_PER_MONTH
from samerack.common.patterns import exactly
from samerack.common.records import FOLLOWING
from samerack.offline.curve import points_of
from samerack.planning import planner
from samerack.planning.byte_shares import Rates, known_crossing, row_of
from samerack.planning.members import PlanMember, placed
from samerack.planning.mode import Mode, mode_of
from samerack.planning.problem import problem_of
from samerack.planning.rack_spread import RackSpread, rack_spread
from samerack.reporting.baseline import sends_rack
from samerack.reporting.server_assignment import missing_change, server_assignment
from samerack.reporting.verify_racks import rack_warnings
from samerack.reporting.verify_spread import CURE_OF_COPARTITIONING, cure_of_uneven, members_uneven, uneven_in_words
from samerack.settings.all_settings import Settings
from samerack.settings.measuring import price_table
from samerack.traffic.evenness import busiest, topic_share
from samerack.traffic.rates import weights_of_rates
from samerack.traffic.watch import observe

_WITHOUT_COPARTITIONING = (
    "the curve does not keep co-partitioned topics together, as plans for this group do: leading.max_skew works where "
    "leading.keep_copartitioned is never"
)


def measured_rates(group: str, settings: Settings, seconds: float) -> Rates:
    """Measure the bytes per second of the group's partitions."""
    traffic = settings.traffic.model_copy(update={"groups": (exactly(group),)})
    snapshot = observe(settings.model_copy(update={"traffic": traffic}), seconds=seconds)
    return {partition: rate for measured in snapshot.groups for partition, rate in measured.long_run_rates.items()}


def examine(
    group: str,
    settings: Settings,
    assignor: planner.AssignorName,
    *,
    rates: Rates | None = None,
    with_curve: bool = False,
) -> dict[str, Any]:
    """Return everything that `plan` shows, as JSON values; with rates the shares are by bytes, else by partitions.

    Raises:
        AgentError: The group is not there, reads no topics by assignment, or rebalances; or brokers do not answer.
    """
    hosts, unasked = hosts_known(settings, group)
    with closing(Wire(for_kafka_python(settings.kafka))) as wire:
        subject = subject_of(group, settings, wire, hosts)
        if subject.offered is not None and assignor == "range":
            raise AgentError(f"group {group}: the brokers assign it; --assignor range is for classic groups")
        seen = read_metadata(wire, topics_of(one.topics for one in subject.members))
        aware, max_size, unknown = asked_configs(settings, wire, seen)
    cluster = settle(Settling(), seen, 0.0, SettlingTimes(change=0.0, leader=0.0)).state.settled
    mode = mode_of(subject.protocol, settings.leading, rack_aware_fetch=aware)
    members = placed(
        (member for member in subject.members if member.instance_id != settings.leading.instance_id), cluster.racks
    )
    if not members:
        raise AgentError(f"group {group}: no member has a readable subscription")
    weights = weights_of_rates(rates) if rates is not None else None
    problem = problem_of(members, cluster, mode, weights=weights)
    if subject.offered is None:
        made = planner.make_plan(problem, mode, prefer=assignor)
    else:
        made = _plan_of_brokers(problem, members)
    racks = {member.id: member.rack for member in members}
    client_ids = {member.id: member.client_id for member in members}
    shares = shares_of(made, rates)
    said = agent_says(settings, group)
    role, trouble = said.get("role", ""), said.get("trouble", "")
    present, proposed = (per_member(made, owner) for owner in (problem.owner, made.final))
    return {
        "group": group,
        "protocol": subject.protocol,
        "assigned_by": "members" if subject.offered is None else "brokers",
        "server": None
        if subject.offered is None
        else asdict(
            server_assignment(
                subject.protocol,
                subject.offered,
                share=shares[1],
                change=missing_change(*shares, static=all(member.instance_id is not None for member in members)),
            )
        ),
        "assignor": made.assignor if subject.offered is None else ASSIGNOR,
        "weighed_by": "bytes" if weights else "partitions",
        "agent_leads": how_led(
            subject.view, settings, role=role, trouble=trouble, saving=_saving(*shares), max_size=max_size
        ),
        "agent_only_observes": (role != FOLLOWING and trouble) or None,
        "agent_is_paused": said.get("paused") or None,
        "replicas_that_serve": "any replica in the member's rack" if aware else "leader replicas",
        "over_racks": over_racks(
            rack_spread(problem, cluster, rates), elsewhere={rack.rack for rack in racks.values()} - cluster.racks.names
        ),
        "present": {**_figures(made.before, shares[0]), **_evenness(problem, problem.owner, rates)},
        "proposed": {**_figures(made.after, shares[1]), **_evenness(problem, made.final, rates)},
        "copartitioning": copartitioning(made, mode, settings, group, rates) if made.assignor == "optimal" else None,
        "warnings": [
            *unknown,
            *filter(None, [unasked]),
            *unknown_racks([rack.named for rack in racks.values()], cluster),
            *rack_warnings([rack.named for rack in racks.values()], settings.racks, cluster.racks),
            *subject.unreadable,
            *([_WITHOUT_COPARTITIONING] if with_curve and mode.keep_copartitioned else []),
        ],
        "members": [
            {
                "id": member,
                "client_id": client_ids[member],
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


def copartitioning(
    made: planner.Plan, mode: Mode, settings: Settings, group: str, rates: Rates | None
) -> dict[str, Any] | None:
    """Return what would cross racks if co-partitioned topics need not stay together; None if that saves too little.

    Too little is what the policy would not rebalance the group for. Bytes and dollars are None where not measured.
    """
    if not mode.keep_copartitioned:
        return None
    apart = planner.make_plan(made.problem, replace(mode, keep_copartitioned=False))
    (_, together), (_, share) = shares_of(made, rates), shares_of(apart, rates)
    if together is None or share is None or together - share <= settings.policy.of(group).min_saving:
        return None
    saved = None
    if rates is not None:
        row = row_of(made.problem, rates)
        saved = known_crossing(made.problem, made.final, row) - known_crossing(made.problem, apart.final, row)
    price = price_table(settings.money)
    return {
        "cross_rack_share": share,
        "saved_bytes_per_second": saved,
        "saved_dollars_per_month": None if saved is None else price.dollars(saved) * SECONDS_PER_MONTH,
        "cure": CURE_OF_COPARTITIONING,
    }


def _saving(now: float | None, then: float | None) -> float | None:
    return None if now is None or then is None else now - then


def _evenness(problem: Problem, owner: Int32Array, rates: Rates | None) -> dict[str, Any]:
    """Return how evenly members read under a plan; None where it is not known."""
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
    return {"topic_share": None if share is None else asdict(share), "busiest": None if most is None else asdict(most)}


def over_racks(spread: RackSpread | None, *, elsewhere: Collection[str | None]) -> dict[str, Any] | None:
    """Return how members and partitions are spread over racks, as JSON values.

    Args:
        spread: the spread; None where racks are not known.
        elsewhere: racks of members that no broker is in: then that is the warning, and not how members are spread.
    """
    if spread is None:
        return None
    uneven = members_uneven(spread) and not elsewhere
    return {
        **asdict(spread),
        "cause": uneven_in_words(spread) if uneven else None,
        "cure": cure_of_uneven(spread) if uneven else None,
    }


def _plan_of_brokers(problem: Problem, members: Sequence[PlanMember]) -> planner.Plan:
    """Return the plan of samerack's assignor in the brokers."""
    final = server_plan(problem, sends_rack(problem, members))
    return planner.Plan(problem=problem, final=final, sent=final, assignor="optimal", failure=None)


def _figures(cost: Cost, share: float | None) -> dict[str, Any]:
    """Return a cost as JSON values; what crosses racks is None if it is known of no partition."""
    return {
        **asdict(cost),
        "cross_rack": cost.known_partitions_across,
        "cross_rack_weight": cost.known_cross_rack_weight if cost.known else None,
        "cross_rack_share": share,
    }


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


def asked_configs(settings: Settings, wire: Wire, seen: ClusterView) -> tuple[bool, int | None, list[str]]:
    """Return what `plan` needs of the brokers' configuration.

    That is whether any replica in a member's rack serves it, `group.max.size` (None if it is not known), and why the
    first is not known: then only leaders count.
    """
    selector = settings.racks.replica_selector
    try:
        configs = read_broker_configs(wire, seen.brokers)
    except AgentError as error:
        unknown = [f"only leader replicas count as near, as for a running agent: {error}"]
        return selector == "rack-aware", None, unknown if selector == "auto" else []
    aware = configs.rack_aware if selector == "auto" else selector == "rack-aware"
    return aware, configs.max_group_size, []


def per_member(made: planner.Plan, owner: Int32Array) -> list[dict[str, Any]]:
    """Return each member's partitions with these owners; what crosses racks is None where it is not known."""
    problem = made.problem
    crossing = known_crossing_by_member(problem, owner)
    result = []
    for index in range(len(problem.members)):
        mine = np.flatnonzero(owner == index)
        result.append(
            {
                "partitions": [[problem.topics[problem.topic_of[p]], int(problem.number_of[p])] for p in mine],
                "cross_rack": crossing[index],
                "gained": int(np.count_nonzero((problem.owner[mine] != index) & (problem.owner[mine] != NOBODY))),
            }
        )
    return result
