"""The order of a group's members, and which places in it are good for a member without topics.

The coordinator and Java's leaders keep members in hash tables by member id. The order decides two things:

- who leads next: the first member of the coordinator's order, the present leader aside;
- whether a Java `sticky` or `cooperative-sticky` leader gives partitions to a member without topics. It does when that
  member comes before all others in its table (its check for equal subscriptions skips empty ones that come first), and
  nobody would read those partitions. So in such groups the agent may only stand behind somebody else.

A static member gets a new id, and so a new place, whenever it joins again with an empty one. No I/O enters here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent.group import GroupView, MemberView
from protocol.java import FIRST_TABLE, buckets_for, spread_hash

SOUND_PROTOCOLS: Final = frozenset({"range", "roundrobin"})
"""Assignors whose Java form gives nothing to a member without topics, whatever its place."""
UNSOUND_PROTOCOLS: Final = frozenset({"RoundRobinAssigner"})
"""Assignors that give partitions to every member, whatever it subscribes to: kafkajs's. Each join of a member without
topics stops such a group for many seconds, so the agent leads it from birth or is not in it."""
_MOST_BUCKETS: Final = 1 << 20


def is_first(group: GroupView, member_id: str, leader_id: str) -> bool:
    """Whether the broker would make this member the leader if the present one left."""
    others = (member.id for member in group.members if member.id != leader_id)
    return next(others, None) == member_id


def ahead(group: GroupView, member_id: str, leader_id: str) -> tuple[MemberView, ...]:
    """The members that the broker would make the leader rather than this one, if the present one left."""
    ids = [member.id for member in group.members]
    before = group.members[: ids.index(member_id)] if member_id in ids else group.members
    return tuple(member for member in before if member.id != leader_id)


def is_exposed(group: GroupView, member_id: str) -> bool:
    """Whether the group's leader may give partitions to this member although it has no topics.

    Looked at for the table's present size and for the sizes that it takes when members come or go.
    """
    others = [member.id for member in group.members if member.id != member_id]
    if group.protocol in SOUND_PROTOCOLS or not others:
        return False
    mine, hashes = spread_hash(member_id), [spread_hash(other) for other in others]
    return any(min(code & mask for code in hashes) >= mine & mask for mask in _masks(len(others) + 1))


def offers_safe_place(group: GroupView, member_id: str) -> bool:
    """Whether some member id would not be exposed: not so where all others sit in the last bucket of the table."""
    others = [member.id for member in group.members if member.id != member_id]
    if group.protocol in SOUND_PROTOCOLS or not others:
        return True
    hashes = [spread_hash(other) for other in others]
    return all(min(code & mask for code in hashes) < mask for mask in _masks(len(others) + 1))


def members_before(group: GroupView, member_id: str) -> int:
    """How many members would come before a member with this id, be it in the group already or not."""
    ids = [member.id for member in group.members if member.id != member_id]
    buckets = _buckets(ids) or buckets_for(len(ids) + 1)
    mine = spread_hash(member_id) & (buckets - 1)
    return sum(spread_hash(other) & (buckets - 1) <= mine for other in ids)


def is_well_behind(group: GroupView, member_id: str) -> bool:
    """Whether at least half of the members come before this one, so that some may leave without exposing it."""
    ids = [member.id for member in group.members]
    return member_id in ids and 2 * ids.index(member_id) >= len(ids) - 1


def front_is_free(group: GroupView, member_id: str, leader_id: str) -> bool:
    """Whether a new member id could lead next: there is a bucket before all others but the leader.

    Where the leader's assignor asks for somebody in front, that bucket has to come after the leader's. The table of the
    coordinator never shrinks; its size is the least that explains the order.
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


def places_share(group: GroupView, member_id: str, leader_id: str, most: int) -> float:
    """Of all new member ids, the share with so many members before them at most, the leader aside: 0 to 1."""
    ids = [member.id for member in group.members]
    others = [member for member in ids if member not in (member_id, leader_id)]
    buckets = _buckets(ids)
    if len(others) <= most or buckets is None:
        return 1.0
    return (spread_hash(others[most]) & (buckets - 1)) / buckets  # in that bucket itself a newcomer comes last


def _buckets(ids: Sequence[str]) -> int | None:
    """The size of the coordinator's table: the least that explains the order, or None where none does."""
    hashes = [spread_hash(member) for member in ids]
    buckets = buckets_for(len(ids))
    while buckets <= _MOST_BUCKETS:
        places = [code & (buckets - 1) for code in hashes]
        if places == sorted(places):
            return buckets
        buckets *= 2
    return None


def _masks(members: int) -> tuple[int, ...]:
    """Bucket masks of the leader's table for about so many members: its size now, half of it and twice of it."""
    buckets = buckets_for(members)
    return tuple(size - 1 for size in (buckets // 2, buckets, buckets * 2) if size >= FIRST_TABLE)


def is_led_unawares(group: GroupView, leader_id: str, instance_id: str | None) -> bool:
    """Whether a static member that was told of this leader leads itself: the leader is its own former member id.

    JoinGroup before v9 answers so to one that is started again within its session (KIP-814). It has to start a
    rebalance to be asked for a plan again.
    """
    return (
        bool(instance_id)
        and leader_id.startswith(f"{instance_id}-")
        and all(member.id != leader_id for member in group.members)
    )
