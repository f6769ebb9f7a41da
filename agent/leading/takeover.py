"""The rules of a clean takeover: when the agent may take the lead of a running eager group, and when a step is done.

A rebalance that the agent starts ends like any other: all members have revoked their partitions and wait in JoinGroup,
which only the response proves. Before the group's leader has sent its plan, the agent has joined once more and reserves
a member id that keeps the rebalance open (the pending member): a second rebalance, in which no member owns partitions,
since the brokers show every assignment empty. Then the agent removes the leader, and members that would lead before
the agent, from the group; they join again at once, and the agent leads. When all members are back the agent removes
the pending member.

Also what a takeover would gain and cost, and whether that is worth a rebalance.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from samerack.agent.leading.membership import Membership
from samerack.agent.leading.progress import Gain
from samerack.agent.leading.rebalance_evaluator import RebalanceEvaluator
from samerack.agent.policy import Action, Decision, GroupCondition, Reason
from samerack.cluster.group import EAGER, GroupView, MemberView
from samerack.cluster.joining import ahead, foreign, places_share
from samerack.common import words
from samerack.settings.cures import command
from samerack.settings.leading import COOPERATIVE_PROTOCOLS, LeadingSettings

PREPARING: Final = "PreparingRebalance"
_ON_THE_WAY: Final = frozenset({"CompletingRebalance", "Stable"})
"""States after the others joined again before the pending member: the agent joins again and holds that rebalance."""
MAX_TRIES: Final = 4
"""Rebalances in which the agent tries to join once more before the plan of the group's leader is in force; each try
costs the group one more rebalance."""
MAX_AHEAD: Final = 3
"""Members that are evicted besides the leader because they would lead next; usually there are none, or one."""
MAX_REJOINS: Final = 256
"""Positions that are tried to find one with so few members before it."""
_MIN_CHANCES: Final = 5.0
"""Number of those positions that must be good on average: then one takeover in 150 finds none."""
_LATER: Final = "try again after members have joined or left, which changes the order"
REBALANCES: Final = 2
"""The one that the agent asks for, and the one that is held open, in which it comes to lead."""
HELD_SECONDS: Final = 4.0
"""The longest hold of the group: well below the shortest session timeout that brokers allow by default (6 s)."""
_BEGIN_SECONDS: Final = 1.0
"""Members that have their partitions need this time to fetch offsets and start reading."""
LEAD_SECONDS: Final = 10.0
"""After the release the rebalance must end within this time."""
LATE_SECONDS: Final = 15.0
"""For this time the agent, which leads by then, reports evicted members that are not back: librdkafka's take 7 s."""
BACK_SECONDS: Final = 0.3
"""If several members were evicted, the agent waits this time for the next: a librdkafka follower needs a second more
than the leader. A later one joins in another rebalance, which costs the group less time than waiting."""


def refusal(view: GroupView, member: Membership, leading: LeadingSettings) -> str:
    """Return why a clean takeover of this group is not possible from any position; empty if it is."""
    if not view.stable:
        return f"it is {view.state}, not Stable; try again when it is Stable"
    if view.protocol in COOPERATIVE_PROTOCOLS:
        return (
            f"its protocol {view.protocol} is cooperative: evicted members lose partitions that they still read; stop "
            "all its consumers and start them again, and the agent leads from the first generation"
        )
    if view.protocol not in EAGER:
        return f"it is unknown whether members revoke all partitions before they join with protocol {view.protocol!r}"
    leader = member_of(view, member.leader_id)
    if leader is None:
        return "its leader is not among its members; try again when it has settled"
    if leader.instance_id is not None:
        return (
            f"its leader {leader.client_id} is a static member ({leader.instance_id}), which is never evicted and "
            "keeps the lead when it restarts; stop it for longer than its session timeout"
        )
    return foreign(replace(view, members=others(view, member.member_id)), leading)


def no_position_reason(view: GroupView, member: Membership) -> str:
    """Return why the agent cannot become the leader from any position that it can take; empty if it can.

    A static member may take another position without a rebalance (`agent.leading.join_position`); a dynamic one must
    keep its position.
    """
    if not member.is_static or not ahead(view, member.member_id, member.leader_id):
        return place_refusal(view, member)
    if MAX_REJOINS * places_share(view, member.member_id, member.leader_id, MAX_AHEAD) < _MIN_CHANCES:
        return f"more than {MAX_AHEAD} members would lead rather than the agent in nearly every place; {_LATER}"
    return ""


def place_refusal(view: GroupView, member: Membership) -> str:
    """Return why evicting the leader and the members ahead cannot make the agent the leader; empty if it can."""
    before = ahead(view, member.member_id, member.leader_id)
    if static := [f"{one.client_id} ({one.instance_id})" for one in before if one.instance_id is not None]:
        return f"static members would lead next, and are never evicted: {', '.join(sorted(static))}"
    if len(before) > MAX_AHEAD:
        return f"{len(before)} members would lead rather than the agent; {_LATER}"
    return ""


def longest_pause(rejoin_seconds: float | None) -> float | None:
    """Return for how long, in seconds, a takeover stops the group's reading at most, estimated from its rebalances.

    Its members rejoin twice, wait for the evicted members, and start to read again. None if it is not known how long
    they took to rejoin recently.
    """
    return None if rejoin_seconds is None else 2 * rejoin_seconds + HELD_SECONDS + _BEGIN_SECONDS


def gain_of(
    view: GroupView, condition: GroupCondition, evaluator: RebalanceEvaluator, rejoin_seconds: float | None
) -> Gain:
    """Return what a takeover would gain and cost; `rejoin_seconds` is how long the members took to rejoin recently."""
    now, then = condition.shares
    return Gain(
        members=len(view.members) - 1,
        cross_rack_now=condition.present.known_partitions_across,
        cross_rack_then=condition.possible.known_partitions_across,
        share_now=now,
        share_then=then,
        saved_bytes_per_second=evaluator.saved_bytes_per_second,
        saved_dollars_per_day=evaluator.saved_dollars_per_day,
        rejoin_seconds=rejoin_seconds,
        held_seconds_at_most=HELD_SECONDS,
        pause_seconds_at_most=longest_pause(rejoin_seconds),
        moved=condition.possible.moved,
        rebalances=REBALANCES,
    )


def worth_refusal(group: str, decision: Decision, *, asked: bool) -> str:
    """Return why the gain is not worth a rebalance now, by what the policy would do if the agent led the group.

    Empty if it is worth it; if a user has `asked` for the takeover, a rebalance that the policy only proposes is
    enough.
    """
    if decision.reason is Reason.PAUSED:
        return f"an operator has paused the agent in this group: {command('resume', group=group)} ends that"
    allowed = {Action.REBALANCE, Action.PROPOSE} if asked else {Action.REBALANCE}
    if decision.before is None or decision.after is None:
        return f"the gain is unknown ({decision.reason.value}): {words.RACKS_UNKNOWN}"
    worth = decision.action in allowed or decision.reason is Reason.MEMBER_MAY_BE_AWAY  # worth it, and not yet possible
    if worth and decision.before > decision.after:
        return ""
    return (
        f"the gain does not justify a rebalance now ({decision.reason.value}): {decision.before:.1%} is read across "
        f"racks, {decision.after:.1%} would be"
    )


def slow_refusal(waited_seconds: float, max_seconds: float) -> str:
    """Return why the members take too long to rejoin; empty if they do not."""
    if waited_seconds <= max_seconds:
        return ""
    return (
        f"its members took {waited_seconds:.1f} s to rejoin lately, longer than leading.takeover_wait_seconds "
        f"({max_seconds:g} s): their heartbeat intervals or poll loops are long, and all members would wait for the "
        "slowest"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of a poll during a takeover.

    Attributes:
        go: the step is done.
        again: the group's leader was faster; nothing is lost, and it may be tried again in the rebalance under way.
        missing: how many evicted members are not back.
        trouble: why the takeover must be undone, or "".
    """

    go: bool = False
    again: bool = False
    missing: int = 0
    trouble: str = ""


def may_evict(before: GroupView, view: GroupView, member: Membership) -> StepResult:
    """Return whether no member owns partitions any more, so that the leader may be evicted.

    The group was stable `before`, and is held by the pending member now.
    """
    if view.state in _ON_THE_WAY:
        return StepResult()
    if view.state != PREPARING:
        return StepResult(trouble=f"the group is {view.state} instead of {PREPARING}")
    if any(len(one.assigned) for one in view.members):
        return StepResult(again=True)
    if gone := {one.id for one in before.members} - {one.id for one in view.members}:
        return StepResult(trouble=f"members left meanwhile: {_names(before, gone)}")
    if come := {one.id for one in view.members} - {one.id for one in before.members}:
        return StepResult(trouble=f"members came meanwhile: {_names(view, come)}")
    if place := place_refusal(view, member):
        return StepResult(trouble=place)
    return StepResult(go=True)


def is_back(before: GroupView, view: GroupView, evicted: frozenset[str]) -> StepResult:
    """Return whether all members are in the group again after the eviction, the evicted ones with new ids."""
    if view.state != PREPARING:
        return StepResult(trouble=f"the group is {view.state} instead of {PREPARING}")
    staying = {member.id for member in before.members} - evicted
    if gone := staying - {member.id for member in view.members}:
        return StepResult(trouble=f"members left meanwhile: {_names(before, gone)}")
    missing = missing_of(before, view)
    return StepResult(go=not missing, missing=missing)


def missing_of(before: GroupView, view: GroupView) -> int:
    """Return how many members of before are not in the group, by their client ids."""
    return (
        Counter(member.client_id for member in before.members) - Counter(member.client_id for member in view.members)
    ).total()


def others(view: GroupView, me: str) -> tuple[MemberView, ...]:
    """Return all members except the agent."""
    return tuple(member for member in view.members if member.id != me)


def member_of(view: GroupView, member_id: str) -> MemberView | None:
    """Return the member with this id, or None."""
    return next((member for member in view.members if member.id == member_id), None)


def _names(view: GroupView, ids: set[str]) -> str:
    return ", ".join(sorted(member.client_id for member in view.members if member.id in ids))
