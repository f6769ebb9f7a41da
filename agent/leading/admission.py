"""Which groups the agent may join: a pure rule over one look at the group, with the reason when it may not."""

from __future__ import annotations

from agent.group import CONSUMER, EMPTY_STATES, GroupView, MemberView, endangers
from agent.leading.order import SOUND_PROTOCOLS, offers_safe_place
from common.settings import LeadingSettings


def is_settled(view: GroupView) -> bool:
    """Whether the group is not in the middle of a rebalance: only then does it show what the rule looks at."""
    return view.stable or view.state in EMPTY_STATES


def refusal(view: GroupView, leading: LeadingSettings) -> str:
    """Why the agent stays out of this group; empty when it may join.

    It joins only groups of protocol type `consumer` that share a protocol name with it and whose present leader bears a
    member without topics. Whether brokers assign the group is not seen here (`agent.watch.group_type`).
    """
    if view.protocol_type not in ("", CONSUMER):
        return f"its protocol type is {view.protocol_type!r}, not consumer"
    if not view.stable:
        return ""
    if view.protocol not in leading.protocols:
        return f"its members chose protocol {view.protocol!r}; add that name to leading.protocols"
    if endangers(view) and not leading.roundrobin_tolerates:
        return (
            "its members use roundrobin with subscription v0, and kafka-python 3's roundrobin fails on a member "
            "without topics; if none is kafka-python 3, set leading.roundrobin_tolerates"
        )
    if view.protocol not in SOUND_PROTOCOLS and any(_is_agent(member, leading) for member in view.members):
        return "another agent is in it, or this one before its last end: its session has to run out first"
    if not offers_safe_place(view, ""):
        return "its leader would give partitions to a member without topics, whatever its place"
    return ""


def _is_agent(member: MemberView, leading: LeadingSettings) -> bool:
    """A member without topics and without our instance id: with it, joining would just take that membership over."""
    return (
        member.subscription is not None and not member.subscription.topics and member.instance_id != leading.instance_id
    )
