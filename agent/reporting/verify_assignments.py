"""Checks how groups get their assignment: from an assignor that ignores racks, from the brokers, or from the agent.

Each check is a function of the evidence; its cure says how the agent can lead the group, or what else uses racks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from samerack.agent.reporting.evidence import Evidence, avoidable_dollars, in_group
from samerack.agent.reporting.findings import Code, Finding
from samerack.agent.reporting.shares import avoidable_share, present_share
from samerack.cluster.server_assignors import ASSIGNOR
from samerack.common.settings import LeadingSettings
from samerack.traffic.model import GroupTraffic

_NEAR_RANDOM: Final = 0.9
"""A share of at least this part of the random one counts as random."""
_CONSUMER: Final = "consumer"
_STREAMS: Final = "streams"
_CLASSIC: Final = "classic"
_SAFE_TO_OFFER: Final = LeadingSettings().protocols


def at_random_baseline(evidence: Evidence) -> Iterator[Finding]:
    """Finds groups whose members have racks, but read across racks as much as a random assignment would."""
    for group, cost in evidence.pairs:
        shares = group.shares
        if shares.present_bytes is None or not shares.random or avoidable_share(group) is None:
            continue
        if group.kind == _CONSUMER:
            continue  # the brokers assign it, which is another finding
        if shares.present_bytes >= _NEAR_RANDOM * shares.random and all(member.rack.rack for member in group.members):
            yield Finding(
                code=Code.AT_RANDOM_BASELINE,
                where=in_group(group),
                cause=f"its members have racks, but {shares.present_bytes:.0%} of its bytes cross racks, as at random "
                f"({shares.random:.0%}); {shares.optimal or 0:.0%} would do. Its assignor {group.assignor or '-'} "
                "ignores racks, or its members do not fetch with theirs",
                cure=_how_to_lead(group),
                costs=True,
                dollars_per_month=avoidable_dollars(evidence, group, cost),
            )


def no_common_protocol(evidence: Evidence) -> Iterator[Finding]:
    """Finds groups that the agent cannot join, as it does not offer the protocol that their members share."""
    for group, _ in evidence.pairs:
        if group.kind == _CLASSIC and group.assignor and group.assignor not in evidence.leading.protocols:
            yield Finding(
                code=Code.NO_COMMON_PROTOCOL,
                where=in_group(group),
                cause=f"its members share only {group.assignor!r}, which the agent does not offer "
                f"({', '.join(evidence.leading.protocols)}): it cannot join, and members with another assignor cannot "
                "either",
                cure=_how_to_share(group.assignor, evidence.leading.protocols),
                costs=avoidable_share(group) is not None,
            )


def broker_assigned(evidence: Evidence) -> Iterator[Finding]:
    """Finds groups of the new protocol (KIP-848) that the brokers assign without regard to racks."""
    for group, cost in evidence.pairs:
        if group.kind == _CONSUMER and cost.server is not None and avoidable_share(group) is not None:
            regard = "" if group.assignor == ASSIGNOR else " without regard to racks"
            under = "" if cost.server.share is None else f", {cost.server.share:.0%} with samerack's assignor"
            yield Finding(
                code=Code.BROKER_ASSIGNED,
                where=in_group(group),
                cause=f"the brokers assign it (KIP-848, {group.assignor or 'assignor not known'}){regard}: "
                f"{present_share(group):.0%} crosses racks, {group.shares.optimal or 0:.0%} would do{under}",
                cure=cost.server.advice,
                costs=True,
                dollars_per_month=avoidable_dollars(evidence, group, cost),
            )


def assignor_on_some_brokers(evidence: Evidence) -> Iterator[Finding]:
    """Finds brokers without samerack's assignor where others have it: a group that they coordinate gets another."""
    served = [cost.server for group, cost in evidence.pairs if group.kind == _CONSUMER and cost.server is not None]
    if served and served[0].lacking and served[0].on_some_brokers:
        lacking = served[0].lacking
        yield Finding(
            code=Code.ASSIGNOR_ON_SOME_BROKERS,
            where=f"broker{'s' if len(lacking) > 1 else ''} {', '.join(map(str, lacking))}",
            cause="other brokers have samerack's assignor: while one without it coordinates a group, the group gets "
            "another assignor; if members ask for samerack by name, it refuses them, and fails at each change in their "
            "group, which ends Java's consumers",
            cure=served[0].advice,
            costs=False,
        )


def avoidable_traffic(evidence: Evidence) -> Iterator[Finding]:
    """Finds groups that read more across racks than under the best plan, whatever the cause is."""
    for group, cost in evidence.pairs:
        if avoidable_share(group) is not None:
            yield Finding(
                code=Code.AVOIDABLE,
                where=in_group(group),
                cause=f"{present_share(group):.0%} crosses racks, {group.shares.optimal or 0:.0%} would do",
                cure=_how_to_lead(group),
                costs=True,
                dollars_per_month=avoidable_dollars(evidence, group, cost),
            )


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


def _how_to_share(assignor: str, offered: Sequence[str]) -> str:
    """Returns how a group can change to a protocol that the agent offers."""
    change = (
        f"give all members a common assignor, {offered[0]} for instance (two rolling restarts: first with both names, "
        "then with the new one)"
    )
    # does not suggest offering others: leaders with some assignors fail on a member without the expected user data
    return f"add {assignor!r} to leading.protocols, or {change}" if assignor in _SAFE_TO_OFFER else change
