"""Checks how groups get their assignment: from an assignor that ignores racks, from the brokers, or from the agent.

Each check is a function of the evidence; its cure says how the agent can lead the group, or what else uses racks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from samerack.assignors.streams.application import Strategy
from samerack.cluster.broker_configs import ASSIGNOR, TASK_LINE
from samerack.cluster.group import EAGER, no_room_reason
from samerack.common.records import FOLLOWING, LEADING
from samerack.reporting.baseline import counted_apart
from samerack.reporting.evidence import Code, Evidence, Finding, in_group
from samerack.reporting.report import MIN_SHARE, GroupCost
from samerack.settings.cures import command
from samerack.settings.leading import LeadingSettings
from samerack.traffic.groups import refusal_of
from samerack.traffic.snapshot import GroupTraffic

_NEAR_RANDOM: Final = 0.9
"""A share of at least this part of the random one counts as random."""
_CONSUMER: Final = "consumer"
_CLASSIC: Final = "classic"
STREAMS_BROKER_ASSIGNED: Final = (
    "the brokers assign its tasks (KIP-1071): with group.protocol=streams the settings rack.aware.assignment.* and "
    f"task.assignor.class of the application have no effect. From Kafka 4.4 on, {TASK_LINE} on every broker and "
    "controller, with samerack's broker jar, and streams.assignor.name=samerack for the group (samerack-sticky where "
    "it has much state) assign them by racks, with its next change; members send client.rack since Kafka Streams 4.3. "
    "With group.protocol=classic the application can set rack.aware.assignment.strategy and client.rack"
)
"""For an application whose tasks the brokers assign."""
_SAFE_TO_OFFER: Final = LeadingSettings().protocols


def at_random_baseline(evidence: Evidence) -> Iterator[Finding]:
    """Find groups whose members have racks, but read across racks as much as a random assignment would."""
    for group, cost in evidence.pairs:
        shares = group.shares
        if shares.present_bytes is None or not shares.random or not cost.avoidable_share:
            continue
        if group.kind == _CONSUMER or _is_foreign(evidence, group):
            continue  # the brokers assign it, or the agent cannot join it, which are other findings
        if shares.present_bytes >= _NEAR_RANDOM * shares.random and all(member.rack.rack for member in group.members):
            fetch = all(member.rack.fetches_with_rack for member in group.members)
            yield Finding(
                code=Code.AT_RANDOM_BASELINE,
                where=in_group(group),
                cause=f"its members have racks, but {shares.present_bytes:.0%} of its bytes cross racks, as at random "
                f"({shares.random:.0%}); {_percent(shares.optimal)} would suffice. Its assignor "
                f"{group.assignor or '-'} ignores "
                "racks" + ("" if fetch else ", and not all of its members are known to fetch with theirs"),
                cure=_how_to_lead(evidence, group, cost),
                dollars_per_month=cost.avoidable_dollars_per_month,
            )


def no_common_protocol(evidence: Evidence) -> Iterator[Finding]:
    """Find groups that the agent cannot join, as it does not offer the protocol that their members share."""
    for group, cost in evidence.pairs:
        if _is_foreign(evidence, group):
            yield Finding(
                code=Code.NO_COMMON_PROTOCOL,
                where=in_group(group),
                cause=f"its members share only {group.assignor!r}, which the agent does not offer "
                f"({', '.join(evidence.leading.protocols)}): it cannot join, and members with another assignor cannot "
                "either",
                cure=_how_to_share(group.assignor, evidence.leading.protocols),
                costs=bool(cost.avoidable_share),
                dollars_per_month=cost.avoidable_dollars_per_month,
            )


def group_full(evidence: Evidence) -> Iterator[Finding]:
    """Find groups that have no room for the agent: beyond `group.max.size` the brokers would refuse a consumer."""
    for group, cost in evidence.pairs:
        reason = no_room_reason(len(group.members), evidence.max_group_size)
        if reason and group.kind == _CLASSIC and (cost.role or cost.avoidable_share != 0):
            cause, _, cure = reason.partition("; ")
            yield Finding(
                code=Code.GROUP_FULL,
                where=in_group(group),
                cause=f"the agent stays out of it: {cause}",
                cure=f"{cure} on every broker and restart them one by one, or run fewer consumers",
                costs=bool(cost.avoidable_share),
            )


def _is_foreign(evidence: Evidence, group: GroupTraffic) -> bool:
    """Return whether a classic group has an assignor that the agent does not offer."""
    return group.kind == _CLASSIC and bool(group.assignor) and group.assignor not in evidence.leading.protocols


def broker_assigned(evidence: Evidence) -> Iterator[Finding]:
    """Find groups of the new protocol (KIP-848) that the brokers assign without regard to racks."""
    for group, cost in evidence.pairs:
        if group.kind == _CONSUMER and cost.server is not None and cost.avoidable_share:
            is_used, then, now = cost.server.assignor == ASSIGNOR, cost.server.share, group.shares.present
            if not is_used and then is not None and now is not None and now - then <= MIN_SHARE:
                continue  # samerack's assignor there would change nothing now: leaders alone serve, or no rack is sent
            saves, most = cost.server.saves_dollars_per_month, cost.avoidable_dollars_per_month
            alone = None if saves is None or most is None else min(saves, most)
            regard = "" if is_used else " without regard to racks"
            under = "" if cost.server.share is None else f", {cost.server.share:.0%} with samerack's assignor"
            yield Finding(
                code=Code.BROKER_ASSIGNED,
                where=in_group(group),
                cause=f"the brokers assign it (KIP-848, {cost.server.assignor or 'assignor not known'}){regard}: "
                f"{_percent(group.shares.present)} crosses racks, {_percent(group.shares.optimal)} would "
                f"suffice{under}",
                cure=cost.server.advice,
                dollars_per_month=most if is_used else alone,
            )


def assignor_on_some_brokers(evidence: Evidence) -> Iterator[Finding]:
    """Find brokers without samerack's assignor where others have it: a group that they coordinate gets another."""
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
    """Find groups that read more across racks than under the best plan, whatever the cause is."""
    for group, cost in evidence.pairs:
        if cost.avoidable_share and group.kind != _CONSUMER:
            yield Finding(
                code=Code.AVOIDABLE,
                where=in_group(group),
                cause=f"{_percent(group.shares.present)} of its "
                f"{'bytes' if group.shares.present_is_by_bytes else 'partitions'} crosses racks, "
                f"{_percent(group.shares.optimal)} would suffice",
                cure=_how_to_lead(evidence, group, cost),
                dollars_per_month=cost.avoidable_dollars_per_month,
            )


def _how_to_lead(evidence: Evidence, group: GroupTraffic, cost: GroupCost) -> str:
    """Return what makes the agent lead a group, by what it is to the group now."""
    bootstrap = evidence.report.bootstrap
    if group.kind != _CLASSIC:
        if group.kind == "streams":
            return STREAMS_BROKER_ASSIGNED
        return _streams_cure(evidence, group)
    plan = f"{command('plan', group=group.group, bootstrap=bootstrap)} shows the plan"
    if cost.role == LEADING:
        return f"the agent leads it: {command('events', group=group.group)} says what it decided and why; {plan}"
    if cost.role == FOLLOWING:
        now = command("lead", group=group.group)
        by_request = f", or at once by {now}" if group.assignor in EAGER else ""
        return f"the agent follows it, and leads it when its leader has left{by_request}; {plan}"
    if cost.role:
        return (
            f"the agent should lead it but is {cost.role}: its page and {command('health', '--ready')} say why; {plan}"
        )
    if refused := refusal_of(group, evidence.leading):
        return f"let the agent lead it; it now stays out: {refused}"
    if evidence.by == "leading-agent":
        return f"let the agent lead it: add {json.dumps(group.group)} to `groups` in its settings; {plan}"
    run = f"let the agent lead it: {command('run', '--group', group.group, bootstrap=bootstrap)}"
    if evidence.by == "observing-agent":
        run += ", instead of this agent, which leads no group, or beside it with its own `web.port`"
    return f"{run}; {plan}"


def _streams_cure(evidence: Evidence, group: GroupTraffic) -> str:
    """Return what saves traffic of an application whose members assign its tasks, and is not done yet."""
    bootstrap = evidence.report.bootstrap
    by_bytes = group.shares.present_is_by_bytes
    measured = ("--seconds", "30", "--by-bytes") if by_bytes else ()
    show = command("streams plan", "--group", group.group, *measured, bootstrap=bootstrap)
    done = evidence.streams_plans.get(group.group)
    if done is not None and done.strategy == Strategy.NONE.value:
        return (
            f"this agent plans its tasks by {done.assignor} with the strategy none, which leaves racks out: set "
            "rack.aware.assignment.strategy=min_traffic there, or `strategy` of it in streams.applications here; "
            f"{show} shows what that saves"
        )
    if done is not None and (done.weights == "bytes" or not by_bytes):
        return (
            f"nothing to set: this agent plans its tasks by {done.assignor}, {done.strategy} and {done.weights}. The "
            "next rebalance may change more, as far as moves cost less than they save "
            f"(rack.aware.assignment.non_overlap_cost); {command('events', '--kind', 'streams-plan')} has its plans"
        )
    now, best = counted_apart(group)
    if done is not None:
        planned = f"this agent plans its tasks by {done.assignor} and {done.strategy}, for which"
    elif by_bytes and now is not None and best is not None and now <= best:
        planned = f"its tasks read {now:.0%} of their partitions across racks, and no strategy of Kafka's reads fewer:"
    else:
        senders = all(member.rack.fetches_with_rack for member in group.members)
        where = "" if senders else " and client.rack in every instance"
        return (
            f"set rack.aware.assignment.strategy=min_traffic{where}, unless it is set, which no metadata says: what is "
            f"left then waits for the next rebalance, or for a higher traffic_cost; {show} shows what each strategy "
            "would read across racks and move"
        )
    return (
        f"{planned} all partitions count alike, while these figures are of bytes: let the agent plan them with "
        "streams.weights=bytes (task.assignor.class=io.samerack.streams.AgentTaskAssignor); "
        f"{show} shows what that saves"
    )


def _how_to_share(assignor: str, offered: Sequence[str]) -> str:
    """Return how a group can change to a protocol that the agent offers."""
    change = (
        f"give all members a common assignor, for instance {offered[0]} (two rolling restarts: first with both names, "
        "then with the new one)"
    )
    # does not suggest offering others: leaders with some assignors fail on a member without the expected user data
    return f"add {assignor!r} to leading.protocols, or {change}" if assignor in _SAFE_TO_OFFER else change


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"
