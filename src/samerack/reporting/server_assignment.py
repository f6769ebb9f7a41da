"""Says which assignor brokers use for a group of the new protocol (KIP-848), and what samerack's there would save.

The agent can lead no such group. What helps is an assignor in the brokers, so the advice is about their configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from samerack.cluster.broker_configs import ASSIGNOR, ASSIGNORS_KEY, LINE, ServerAssignors
from samerack.common.money import per_month
from samerack.reporting.costs import MIN_SHARE
from samerack.reporting.report import GroupCost, Report, ServerAssignment
from samerack.traffic.snapshot import GroupTraffic, TrafficSnapshot

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
