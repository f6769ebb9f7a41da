"""The rules of a clean takeover: when the agent may take the lead of a running eager group, and when a step is done.

A rebalance that the agent starts ends like any other: all members have given up their partitions and wait in JoinGroup,
which only the response proves. Before the group's leader has sent its plan, the agent has joined once more and reserves
a member id that keeps the rebalance open (the pending member): a second rebalance, in which no member has anything to
lose, since the brokers show every assignment empty. Then the agent removes the leader, and members that would lead
before the agent, from the group; they join again at once, and the agent leads. When all members are back the agent
removes the pending member.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from agent.group import GroupView, MemberView
from agent.leading.admission import foreign
from agent.leading.member import Member
from agent.leading.order import ahead, places_share
from common.settings import LeadingSettings

PREPARING: Final = "PreparingRebalance"
_ON_THE_WAY: Final = frozenset({"CompletingRebalance", "Stable"})
"""The others joined again before the pending member: the agent joins once more and holds that rebalance open."""
EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
"""Protocols whose members give up all partitions before they join."""
MOST_TRIES: Final = 4
"""Rebalances in which the agent joins once more before the plan of the group's leader is in force, until it has; each
costs the group one more."""
MOST_AHEAD: Final = 3
"""Members that are evicted beside the leader because they would lead next; as a rule there are none, or one."""
MAX_REJOINS: Final = 256
"""Places that are tried for one with so few members before it."""
_LEAST_CHANCES: Final = 5.0
"""Of those places as many have to be good on average: then one takeover in 150 finds none."""
_LATER: Final = "once members have come or gone, their order is another one"
HELD_SECONDS: Final = 4.0
"""The group is held no longer: well below the least session timeout that brokers allow by default (6 s)."""
_BEGIN_SECONDS: Final = 1.0
"""In which members that have their partitions fetch offsets and read."""
BACK_SECONDS: Final = 0.3
"""Of several that were evicted, the next is waited for so long: a follower on librdkafka needs a second more than the
leader. Who comes later joins in a rebalance of its own, which takes the group less than to wait."""


class Step(Enum):
    """What is being done; `docs/takeover.md` describes each."""

    GATHER = "gather"
    HOLD = "hold"
    EVICT = "evict"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverParties:
    """Who is who in the group.

    Attributes:
        me: the agent's member id.
        leader: the member id of the present leader.
        static: whether the agent's membership is bound to an instance id.
    """

    me: str
    leader: str
    static: bool


def standing_of(member: Member) -> TakeoverParties:
    """Who is who, by what a membership knows."""
    return TakeoverParties(me=member.member_id, leader=member.leader_id, static=member.is_static)


def refusal(look: GroupView, standing: TakeoverParties, leading: LeadingSettings) -> str:
    """Why the lead of this group is not to be taken cleanly, whatever the agent's place; empty when it may be.

    Args:
        look: the group as its brokers describe it.
        standing: who is who.
        leading: which protocols are cooperative, and how the agent is called.
    """
    if not look.stable:
        return f"it is {look.state}, not Stable; try again when it has settled"
    if look.protocol in leading.cooperative_protocols:
        return (
            f"its protocol {look.protocol} is cooperative: whoever is evicted loses partitions that it still reads; "
            "stop all its consumers and start them again, and the agent leads from the first generation"
        )
    if look.protocol not in EAGER:
        return f"whether members give up everything before they join is not known of protocol {look.protocol!r}"
    leader = member_of(look, standing.leader)
    if leader is None:
        return "its leader is not among its members; try again when it has settled"
    if leader.instance_id is not None:
        return (
            f"its leader {leader.client_id} is a static member ({leader.instance_id}), which is never evicted and "
            "keeps the lead when it restarts; stop it for longer than its session timeout"
        )
    return foreign(replace(look, members=others(look, standing.me)), leading)


def outlook_refusal(look: GroupView, standing: TakeoverParties) -> str:
    """Why the agent will not be made the leader from a place that it can have; empty when it will.

    A static member may take another place without a rebalance (`agent.leading.join_position`), a dynamic one has to
    stay.
    """
    if not standing.static or not ahead(look, standing.me, standing.leader):
        return place_refusal(look, standing)
    if MAX_REJOINS * places_share(look, standing.me, standing.leader, MOST_AHEAD) < _LEAST_CHANCES:
        return f"more than {MOST_AHEAD} members would lead rather than the agent in nearly every place; {_LATER}"
    return ""


def place_refusal(look: GroupView, standing: TakeoverParties) -> str:
    """Why the agent cannot be made the leader by evicting the present one and who is ahead; empty when it can."""
    before = ahead(look, standing.me, standing.leader)
    if static := [f"{one.client_id} ({one.instance_id})" for one in before if one.instance_id is not None]:
        return f"static members would lead next, and are never evicted: {', '.join(sorted(static))}"
    if len(before) > MOST_AHEAD:
        return f"{len(before)} members would lead rather than the agent; {_LATER}"
    return ""


def longest_pause(rejoin_seconds: float | None) -> float | None:
    """How long a takeover keeps the group from reading at most, in seconds: forecast from its own rebalances.

    Its members rejoin twice, wait for those who are evicted, and begin to read again.

    Args:
        rejoin_seconds: how long they took to rejoin lately; None where that is not known.
    """
    return None if rejoin_seconds is None else 2 * rejoin_seconds + HELD_SECONDS + _BEGIN_SECONDS


def slow_refusal(waited_seconds: float, most_seconds: float) -> str:
    """Why members take too long to rejoin; empty when they do not."""
    if waited_seconds <= most_seconds:
        return ""
    return (
        f"its members took {waited_seconds:.1f} s to rejoin the last time, longer than leading.takeover_wait_seconds "
        f"({most_seconds:g} s): their heartbeat intervals or poll loops are long, and everybody would wait for the "
        "slowest"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a look in the middle of it says.

    Attributes:
        go: the step is done.
        again: the group's leader was faster; nothing is lost, and it may be tried again in the rebalance under way.
        missing: how many of those that were evicted are not back.
        trouble: why it has to be undone, or "".
    """

    go: bool = False
    again: bool = False
    missing: int = 0
    trouble: str = ""


def may_evict(before: GroupView, look: GroupView, standing: TakeoverParties) -> Verdict:
    """Whether nobody has anything to lose any more, so that the leader may be evicted.

    Args:
        before: the group as it was when it was stable.
        look: the group now, held by the pending member.
        standing: who is who now.
    """
    if look.state in _ON_THE_WAY:
        return Verdict()
    if look.state != PREPARING:
        return Verdict(trouble=f"the group is {look.state} instead of {PREPARING}")
    if any(len(one.assigned) for one in look.members):
        return Verdict(again=True)
    if gone := {one.id for one in before.members} - {one.id for one in look.members}:
        return Verdict(trouble=f"members left meanwhile: {_names(before, gone)}")
    if come := {one.id for one in look.members} - {one.id for one in before.members}:
        return Verdict(trouble=f"members came meanwhile: {_names(look, come)}")
    if place := place_refusal(look, standing):
        return Verdict(trouble=place)
    return Verdict(go=True)


def is_back(before: GroupView, look: GroupView, evicted: frozenset[str]) -> Verdict:
    """Whether everybody is in the group again after the eviction, the evicted members under other ids."""
    if look.state != PREPARING:
        return Verdict(trouble=f"the group is {look.state} instead of {PREPARING}")
    staying = {one.id for one in before.members} - evicted
    if gone := staying - {one.id for one in look.members}:
        return Verdict(trouble=f"members left meanwhile: {_names(before, gone)}")
    missing = Counter(one.client_id for one in before.members) - Counter(one.client_id for one in look.members)
    return Verdict(go=not missing, missing=missing.total())


def others(look: GroupView, me: str) -> tuple[MemberView, ...]:
    """All members but the agent."""
    return tuple(one for one in look.members if one.id != me)


def member_of(look: GroupView, member_id: str) -> MemberView | None:
    """The member with this id."""
    return next((one for one in look.members if one.id == member_id), None)


def _names(look: GroupView, ids: set[str]) -> str:
    return ", ".join(sorted(one.client_id for one in look.members if one.id in ids))
