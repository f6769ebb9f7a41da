"""What a group would read across racks under other plans: other assignors', with other replicas, and less even ones.

The plan is computed by running the assignor on the same members, replicas and byte rates. Whether the assignor of the
group's clients uses racks is taken from what was seen while another member led.

The agent can lead no group of the new protocol (KIP-848): what helps there is an assignor in the brokers, so the advice
is about their configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from samerack.assignors.consumer.registry import Options, own_plan, server_plan
from samerack.assignors.evaluate import Rates, share_of_owners
from samerack.assignors.problem import AssignmentError, BoolArray, Int32Array, Problem
from samerack.assignors.streams.whole_tasks import min_traffic_plan
from samerack.cluster.broker_configs import ASSIGNOR, ASSIGNORS_KEY, LINE, ServerAssignors
from samerack.common.money import per_month
from samerack.events.event import Event
from samerack.planning.curve import CurvePoint, points_of
from samerack.planning.deadline import assign_aside
from samerack.planning.members import PlanMember
from samerack.reporting.report import MIN_SHARE, GroupCost, Report, ServerAssignment
from samerack.traffic.snapshot import GroupTraffic, ObservedMember, TrafficSnapshot

_MAX_PARTITIONS: Final = 20_000
"""Larger groups get no curve on a page: computing its dozen plans would delay the page for seconds."""
_ALIKE: Final = 0.02
"""Shares that differ by at most this much are treated as equal."""
_NEAR: Final = 0.15
"""How far an assignor's share may be from what was seen: other members or replicas, or a history of sticky plans."""


def curve_of(problem: Problem, rates: Rates | None = None) -> tuple[CurvePoint, ...]:
    """Return plans from balanced to most local, by measured bytes per second; empty if the group is too large."""
    if not problem.members or len(problem.owner) > _MAX_PARTITIONS:
        return ()
    try:
        return points_of(problem, rates=rates)
    except AssignmentError:
        return ()


def own_share(group: GroupTraffic, seen: float | None = None) -> float | None:
    """Return the cross-rack share of a plan of the group's own assignor, of bytes where the group's plans weigh them.

    The assignor could not use racks that only the agent knows. Newer assignors of Java and librdkafka (KIP-881) use
    racks that members send; other clients' assignors do not, although the members send them: the share while another
    member led (`seen`, see `seen_share`) shows which it is. If that share fits neither, it is returned itself.

    Return a share between 0 and 1; None if the assignor or the group's members are not known, or if it makes a
    difference whether racks are used and that was not seen.
    """
    problem = group.problem
    if problem is None:
        return None
    sends = sends_rack(problem, group.members)

    def share(tells_rack: BoolArray) -> float | None:
        return _share_of(group, problem, lambda: own_plan(problem, group.assignor, tells_rack, assign=assign_aside))

    without_racks = share(np.zeros_like(sends))
    with_racks = share(sends) if sends.any() else without_racks
    if without_racks is None or with_racks is None or abs(with_racks - without_racks) <= _ALIKE:
        return without_racks
    if seen is None:
        return None
    nearest = min(with_racks, without_racks, key=lambda value: abs(value - seen))
    return nearest if abs(nearest - seen) <= _NEAR else seen


def seen_share(events: Iterable[Event], assignor: str) -> float | None:
    """Return the cross-rack share after the last rebalance in which the agent followed; None if there was none.

    Rebalances in which the agent was no member do not count: another agent may have led. A sticky assignor keeps much
    of the agent's plan, so only rebalances before the agent's first plan count. The newest event is the first.
    """
    seen = None
    for event in reversed(tuple(events)):
        if event.assignor and "sticky" in assignor:
            break
        if not event.assignor and event.generation is not None and event.share_after is not None:
            seen = event.share_after
    return seen


def present_share(group: GroupTraffic) -> float | None:
    """Return the cross-rack share now, by what its plans are weighed by; None if it is not known."""
    problem = group.problem
    return None if problem is None else _share_of(group, problem, lambda: problem.owner)


def server_share(group: GroupTraffic) -> float | None:
    """Return the cross-rack share under samerack's assignor in the brokers (KIP-848); None if there is no plan."""
    problem = group.problem
    if problem is None or not problem.members:
        return None
    sends = sends_rack(problem, group.members)
    return _share_of(group, problem, lambda: server_plan(problem, sends, assign=assign_aside))


def share_with_every_replica(group: GroupTraffic) -> float | None:
    """Return the cross-rack share of the best balanced plan if members read from any replica in their rack.

    Tasks of Kafka Streams stay whole.
    """
    problem, whole = group.problem, group.whole_tasks
    if problem is None:
        return None
    ideal = replace(problem, reads_any_replica=np.ones_like(problem.reads_any_replica))
    return _share_of(
        group,
        ideal,
        lambda: assign_aside("optimal", ideal) if whole is None else min_traffic_plan(ideal, whole),
    )


def counted_apart(group: GroupTraffic) -> tuple[float | None, float | None]:
    """Return the shares of partitions, all alike, that cross racks now and under `min_traffic` with whole tasks."""
    problem, whole = group.problem, group.whole_tasks
    if problem is None or whole is None:
        return None, None
    alike = replace(problem, weights=None)
    now = _share_of(group, alike, lambda: alike.owner)
    return now, _share_of(group, alike, lambda: min_traffic_plan(alike, whole))


def together_and_apart(group: GroupTraffic) -> tuple[float | None, float | None]:
    """Return the cross-rack shares of the best plans that keep co-partitioned topics together, and that do not."""
    problem = group.problem
    if problem is None:
        return None, None

    def share(*, together: bool) -> float | None:
        options = Options(keep_copartitioned=together)
        return _share_of(group, problem, lambda: assign_aside("optimal", problem, options))

    return share(together=True), share(together=False)


def sends_rack(problem: Problem, members: Iterable[ObservedMember | PlanMember]) -> BoolArray:
    """Return [M] whether a member's subscription contains its rack (KIP-881)."""
    sending = {member.id for member in members if member.rack.source == "subscription"}
    return np.array([member in sending for member in problem.members], dtype=np.bool_)


def _share_of(group: GroupTraffic, problem: Problem, make: Callable[[], Int32Array | None]) -> float | None:
    """Return the cross-rack share of another plan, of bytes where they are measured; None if there is no plan."""
    try:
        owner = make()
    except AssignmentError:
        return None
    return share_of_owners(problem, owner, group.long_run_rates) if owner is not None else None


_CONSUMER: Final = "consumer"
_INSTALL: Final = (
    f"put samerack's broker jar on every broker's class path, set {LINE} in every broker's configuration, and restart "
    "the brokers one by one; if brokers allow no plug-ins, use group.protocol=classic and let samerack lead the group"
)
_USED: Final = "nothing to do: the brokers assign the group with samerack's assignor"
_LATE: Final = (
    "the brokers name samerack's assignor, but the group does not read as it would assign it: brokers compute a new "
    "assignment only when something in the group changes, so "
)
_RESTART: Final = "restart one member without group.instance.id"
JOIN_FOR_A_WHILE: Final = (
    "start another consumer in it without group.instance.id, and stop it after ten seconds: brokers give a returning "
    "static member what it had"
)
_THEN: Final = "; then check that clients fetch with their rack"


def with_servers(
    report: Report,
    snapshot: TrafficSnapshot,
    *,
    offered: Callable[[], ServerAssignors],
    share_of: Callable[[GroupTraffic], float | None],
) -> Report:
    """Return the report of a snapshot with `server` of each group of the new protocol.

    `offered` returns the brokers' assignors; it is called only if there is such a group. `share_of` returns such a
    group's cross-rack share under samerack's assignor.
    """
    managed = {group.group: group for group in snapshot.groups if group.kind == _CONSUMER}
    if not managed:
        return report
    assignors = offered()

    def described(cost: GroupCost) -> GroupCost:
        group = managed.get(cost.group)
        if group is None:
            return cost
        share = share_of(group)
        known = server_assignment(
            group.assignor,
            assignors,
            share=share,
            saves_dollars_per_month=None if share is None else _saves(report, cost, share),
            change=missing_change(
                group.shares.present, share, static=all(member.instance_id is not None for member in group.members)
            ),
        )
        return replace(cost, server=known)

    return replace(report, groups=tuple(map(described, report.groups)))


def missing_change(present: float | None, share: float | None, *, static: bool) -> str:
    """Return what makes brokers assign a group anew; empty if it reads as its assignor would assign it, or unknown.

    `present` is its cross-rack share, `share` that under samerack's assignor; `static`: all members are static.
    """
    if present is None or share is None or present - share <= MIN_SHARE:
        return ""
    return JOIN_FOR_A_WHILE if static else _RESTART


def server_assignment(
    assignor: str,
    offered: ServerAssignors,
    *,
    share: float | None,
    saves_dollars_per_month: float | None = None,
    change: str = "",
) -> ServerAssignment:
    """Return what is known about a group of the new protocol.

    `assignor` is the group's, as the brokers describe it, "" if not known; `share` and `saves_dollars_per_month` are
    what samerack's assignor would change, `change` what makes the brokers assign the group as its assignor would decide
    now, "" if they have.
    """
    assignor = offered.assignor_of(assignor)
    return ServerAssignment(
        assignor=assignor,
        installed=offered.installed,
        lacking=offered.lacking,
        on_some_brokers=offered.on_some_brokers,
        unknown=offered.unknown or ("" if offered.installed is not None else "a broker does not return its assignors"),
        share=share,
        saves_dollars_per_month=None if assignor == ASSIGNOR else saves_dollars_per_month,
        advice=_advice(assignor, offered, change),
    )


def _advice(assignor: str, offered: ServerAssignors, change: str) -> str:
    """Return what to do so that samerack's assignor assigns the group."""
    if offered.on_some_brokers:
        return f"not every broker has samerack's assignor: {_INSTALL}"
    if assignor == ASSIGNOR:
        return f"{_LATE}{change}{_THEN}" if change else _USED
    if offered.installed is None:
        return f"the brokers' assignors are unknown; if samerack's is missing, {_INSTALL}"
    if not offered.installed:
        return _INSTALL
    if offered.preferred:
        return (
            f"every broker prefers samerack's assignor, but members ask for {assignor or 'another'}: unset their "
            "group.remote.assignor. If they cannot (franz-go always asks for uniform or range), take that one out of "
            f"{ASSIGNORS_KEY} in every broker's configuration and set samerack.assignor.name to it there"
        )
    return (
        f"every broker has samerack's assignor, but prefers another: put it first ({LINE}), or set "
        f"group.remote.assignor={ASSIGNOR} in the members"
    )


def _saves(report: Report, cost: GroupCost, share: float) -> float | None:
    """Return what the same bytes would cost less per month with this cross-rack share; None if not known."""
    if cost.known_bytes is None or cost.cross_rack_bytes is None:
        return None
    would_cross = share * cost.known_bytes
    saved = per_month(report.prices.dollars(cost.cross_rack_bytes - would_cross), report.window_seconds)
    return None if saved is None else max(0.0, saved)
