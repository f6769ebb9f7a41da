"""Which groups an agent may join, and which position among the members is good for one without topics.

Pure rules over one description of the group, with the reason for a refusal: the agent goes by them, and so does what
advises to let an agent lead a group.

The coordinator and Java's leaders keep members in hash tables by member id. The order decides two things:

- which member leads next: the first one in the coordinator's order, not counting the present leader;
- whether a Java `sticky` or `cooperative-sticky` leader gives partitions to a member without topics. It does if that
  member comes before all others in its table (its check for equal subscriptions skips empty ones that come first), and
  no consumer would read those partitions. So in such groups the agent must come after another member.

A static member gets a new id, and so a new position, whenever it joins again with an empty one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from samerack.cluster.group import CONSUMER, GroupView, MemberView, endangers
from samerack.protocol.java import FIRST_TABLE, buckets_for, spread_hash
from samerack.settings.leading import LeadingSettings
from samerack.settings.protocols import protocol_refusal

SOUND_PROTOCOLS: Final = frozenset({"range", "roundrobin"})
"""Assignors whose Java version gives nothing to a member without topics, whatever its position."""
_EVEN_PROTOCOLS: Final = frozenset({"sticky", "cooperative-sticky"})
"""Assignors that give members with equal subscriptions equally many partitions, or one more."""
_MAX_BUCKETS: Final = 1 << 20


def is_first(group: GroupView, member_id: str, leader_id: str) -> bool:
    """Return whether the broker would make this member the leader if the present one left."""
    others = (member.id for member in group.members if member.id != leader_id)
    return next(others, None) == member_id


def ahead(group: GroupView, member_id: str, leader_id: str) -> tuple[MemberView, ...]:
    """Return the members that the broker would prefer to this one as leader, if the present one left."""
    ids = [member.id for member in group.members]
    before = group.members[: ids.index(member_id)] if member_id in ids else group.members
    return tuple(member for member in before if member.id != leader_id)


def is_exposed(group: GroupView, member_id: str) -> bool:
    """Return whether the group's leader may give partitions to this member although it has no topics.

    Checked for the table's present size and for its sizes after members join or leave.
    """
    others = [member.id for member in group.members if member.id != member_id]
    if group.protocol in SOUND_PROTOCOLS or not others:
        return False
    mine, hashes = spread_hash(member_id), [spread_hash(other) for other in others]
    return any(min(code & mask for code in hashes) >= mine & mask for mask in _masks(len(others) + 1))


def offers_safe_place(group: GroupView, member_id: str) -> bool:
    """Return whether some member id would not be exposed; there is none if all others are in the last bucket."""
    others = [member.id for member in group.members if member.id != member_id]
    if group.protocol in SOUND_PROTOCOLS or not others:
        return True
    hashes = [spread_hash(other) for other in others]
    return all(min(code & mask for code in hashes) < mask for mask in _masks(len(others) + 1))


def members_before(group: GroupView, member_id: str) -> int:
    """Return how many members would come before a member with this id, whether or not it is in the group."""
    ids = [member.id for member in group.members if member.id != member_id]
    buckets = _buckets(ids) or buckets_for(len(ids) + 1)
    mine = spread_hash(member_id) & (buckets - 1)
    return sum(spread_hash(other) & (buckets - 1) <= mine for other in ids)


def is_well_behind(group: GroupView, member_id: str) -> bool:
    """Return whether at least half of the members come before this one, so that some may leave without exposing it."""
    ids = [member.id for member in group.members]
    return member_id in ids and 2 * ids.index(member_id) >= len(ids) - 1


def front_is_free(group: GroupView, member_id: str, leader_id: str) -> bool:
    """Return whether a new member id could lead next: there is a bucket before all members except the leader.

    If the protocol is not sound, that bucket must come after the leader's, so that the agent is not first. The
    coordinator's table never shrinks; its size is taken as the smallest that explains the order.
    """
    ids = [member.id for member in group.members]
    others = [member for member in ids if member not in (member_id, leader_id)]
    if not others:
        return True
    buckets = _buckets(ids)
    if buckets is None:
        return True
    places = [spread_hash(member) & (buckets - 1) for member in ids]
    behind = -1
    if group.protocol not in SOUND_PROTOCOLS:
        if leader_id not in ids:
            return False
        behind = places[ids.index(leader_id)]
    return places[ids.index(others[0])] - behind > 1


def places_share(group: GroupView, member_id: str, leader_id: str, max_ahead: int) -> float:
    """Return the share of new member ids, 0 to 1, with `max_ahead` members at most before them, besides the leader."""
    ids = [member.id for member in group.members]
    others = [member for member in ids if member not in (member_id, leader_id)]
    buckets = _buckets(ids)
    if len(others) <= max_ahead or buckets is None:
        return 1.0
    return (spread_hash(others[max_ahead]) & (buckets - 1)) / buckets  # in that bucket itself a new member comes last


def _buckets(ids: Sequence[str]) -> int | None:
    """Return the size of the coordinator's table: the smallest that explains the order, or None if none does."""
    hashes = [spread_hash(member) for member in ids]
    buckets = buckets_for(len(ids))
    while buckets <= _MAX_BUCKETS:
        places = [code & (buckets - 1) for code in hashes]
        if places == sorted(places):
            return buckets
        buckets *= 2
    return None


def _masks(members: int) -> tuple[int, ...]:
    """Return bucket masks of the leader's table for about this number of members: its size, half and twice of it."""
    buckets = buckets_for(members)
    return tuple(size - 1 for size in (buckets // 2, buckets, buckets * 2) if size >= FIRST_TABLE)


def counts_agents(group: GroupView) -> bool:
    """Return whether the leader has counted a member without topics in everybody's share of the partitions.

    `group` has only the others, and all partitions are assigned. Each member then has the smaller share at least, and
    what the member without topics does not take makes some of them larger than others; an assignor with weights of
    its own gives some members less.
    """
    counts = [len(member.assigned) for member in group.members]
    topics = {None if one.subscription is None else frozenset(one.subscription.topics) for one in group.members}
    if group.protocol not in _EVEN_PROTOCOLS or len(topics) != 1 or None in topics:
        return False
    return max(counts) - min(counts) > 1 and min(counts) >= sum(counts) // (len(counts) + 1)


def is_led_unknowingly(group: GroupView, leader_id: str, instance_id: str | None) -> bool:
    """Return whether a static member that got this leader id leads itself: the id is its own former member id.

    JoinGroup before v9 returns that to a member that restarts within its session timeout (KIP-814). It must start a
    rebalance to be asked for a plan again.
    """
    return (
        bool(instance_id)
        and leader_id.startswith(f"{instance_id}-")
        and all(member.id != leader_id for member in group.members)
    )


NO_PLACE: Final = "its leader would give partitions to a member without topics in any position"
"""Why the agent stays out of a group with a sticky assignor until its members have other ids."""


def refusal(view: GroupView, leading: LeadingSettings) -> str:
    """Return why the agent stays out of this group; empty if it may join.

    It joins only groups of protocol type `consumer` that share a protocol name with it and whose present leader
    supports a member without topics. This does not check whether brokers assign the group (`cluster.group_questions`).
    """
    if view.protocol_type not in ("", CONSUMER):
        return f"its protocol type is {view.protocol_type!r}, not consumer"
    if not view.stable:
        return ""
    if reason := protocol_refusal(view.protocol, leading):
        return reason
    if reason := endangered_reason(view, leading):
        return reason
    if view.protocol not in SOUND_PROTOCOLS and (reason := foreign(view, leading)):
        return reason
    if not offers_safe_place(view, ""):
        return NO_PLACE
    return ""


def endangered_reason(view: GroupView, leading: LeadingSettings) -> str:
    """Return why the group's own leader may fail on the agent; empty if it does not, or if the settings allow it."""
    if leading.allow_roundrobin_v0 or not endangers(view):
        return ""
    return (
        "its members use roundrobin with subscription v0, and kafka-python 3's roundrobin fails on a member without "
        "topics; if none is kafka-python 3, set leading.allow_roundrobin_v0"
    )


def seems_agent(member: MemberView, protocol: str) -> bool:
    """Return whether a member of a stable group with this protocol seems to be an agent: one without topics.

    In groups with a sound protocol agents are static members; a dynamic member without topics there is a consumer whose
    topics do not exist.
    """
    return (
        member.subscription is not None
        and not member.subscription.topics
        and (member.instance_id is not None or protocol not in SOUND_PROTOCOLS)
    )


def foreign(view: GroupView, leading: LeadingSettings, member_id: str = "") -> str:
    """Return a text that names another agent in the group; empty if there is none.

    Another agent has another instance id: with the same id, joining would just take that membership over. The view is
    without the agent itself; with a `member_id` only that member is checked.
    """
    for member in view.members:
        if (
            seems_agent(member, view.protocol)
            and member.instance_id != leading.instance_id
            and member_id in ("", member.id)
        ):
            if member.instance_id is None:
                return (
                    f"another agent ({member.id}) is a member, or this agent's former process: its session has to "
                    "expire"
                )
            return (
                f"another agent ({member.instance_id}) is a member; give agents that may lead the same groups the same "
                "leading.instance_id and election.group"
            )
    return ""
