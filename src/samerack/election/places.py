"""Decides which agents take part in the election and which wait outside: pure functions.

Kafka writes a whole group as one record, and every member that joins rebalances all others. So only a few agents take
part, and beyond these only those that are needed: some for each responsibility. The others wait outside, each in one
of many small groups in which it advertises its rack and its addresses (`election.registry`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from enum import Enum
from hashlib import sha256
from typing import Final
from zlib import crc32

from samerack.cluster.group import STABLE, DescribedGroup
from samerack.election.messages import Advertisement, decode_advertisement

ROOM: Final = 16
"""This many agents take part whatever they can do; in a smaller fleet none waits outside."""
UNREGISTERED_ROOM: Final = 100
"""The same for agents that may not join the waiting groups."""
CANDIDATES: Final = 3
"""This many agents for each responsibility take part in any case: the active one and two standbys."""
WAITING_GROUPS: Final = 64
"""Number of waiting groups: of 10,000 agents each has about 156 members, and a member that joins rebalances only
those."""
_MIN_PAUSE_SECONDS: Final = 10.0
_MAX_PAUSE_SECONDS: Final = 300.0
_PAUSE_SECONDS_PER_MEMBER: Final = 2.0
_INSTANCE_ID_LETTERS: Final = 12


class Place(Enum):
    """Where an agent belongs."""

    INSIDE = "inside"
    OUTSIDE = "outside"
    UNDECIDED = "undecided"
    """The group rebalances, so that its members' responsibilities cannot be seen."""


def place_for(me: Advertisement, group: DescribedGroup, *, room: int = ROOM) -> Place:
    """Decide where an agent belongs that does not take part yet; `room` agents take part whatever they can do."""
    if len(group.members) < room or any(member.group_instance_id == me.identity for member in group.members):
        return Place.INSIDE
    if not me.responsibilities:
        return Place.OUTSIDE
    if group.group_state != STABLE:
        return Place.UNDECIDED
    able = Counter(
        responsibility
        for member in group.members
        for responsibility in set(decode_advertisement(member.member_id, member.member_metadata).responsibilities)
    )
    return (
        Place.INSIDE
        if any(able[responsibility] < CANDIDATES for responsibility in me.responsibilities)
        else Place.OUTSIDE
    )


def surplus(present: Mapping[str, Advertisement], chosen: Collection[str]) -> frozenset[str]:
    """Return the members that the election does not need, where it has more than ROOM; the `chosen` are active."""
    if len(present) <= ROOM:
        return frozenset()
    able: dict[str, list[str]] = defaultdict(list)
    for member in sorted(present):
        for responsibility in dict.fromkeys(present[member].responsibilities):
            able[responsibility].append(member)
    kept = set(chosen)
    for responsibility in sorted(able):
        missing = CANDIDATES - sum(member in kept for member in able[responsibility])
        kept.update([member for member in able[responsibility] if member not in kept][: max(0, missing)])
    others = sorted(present.keys() - kept, key=lambda member: (not present[member].responsibilities, member))
    return frozenset(others[max(0, ROOM - len(kept)) :])


def waiting_groups(election: str) -> tuple[str, ...]:
    """Return all groups of agents outside an election; one prefixed ACL covers them and the election's."""
    return tuple(f"{election}-waiting-{number:02}" for number in range(WAITING_GROUPS))


def waiting_group(election: str, identity: str) -> str:
    """Return the group in which this agent waits."""
    return waiting_groups(election)[crc32(identity.encode()) % WAITING_GROUPS]


def waiting_instance(identity: str) -> str:
    """Return its `group.instance.id` there: short, since every poll of an active agent returns all of them."""
    return sha256(identity.encode()).hexdigest()[:_INSTANCE_ID_LETTERS]


def poll_pause(members: int, chance: float) -> float:
    """Return the seconds until a waiting agent polls again whether it is needed in an election of so many members.

    The response grows with the election's members, so polls become rarer with them: all waiting agents of a fleet
    together receive few bytes per second. By `chance`, a random number from 0 to 1, agents that started together do not
    poll together.
    """
    mean = min(_MAX_PAUSE_SECONDS, max(_MIN_PAUSE_SECONDS, _PAUSE_SECONDS_PER_MEMBER * members))
    return mean * (0.5 + chance)
