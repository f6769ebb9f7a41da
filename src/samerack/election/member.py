"""An agent as a member of the agents' own groups: of the election, or of a waiting group; and which it belongs to.

In the election each member sends its advertisement, and the group's leader answers each with a verdict. In a waiting
group each sends its rack, and the leader assigns it back to each, since Kafka shows assignments also while a group
rebalances.

Kafka writes a whole group as one record, and every member that joins rebalances all others. So only a few agents take
part, and beyond these only those that are needed: some for each responsibility. The others wait outside, each in one
of many small groups in which it advertises its rack and its addresses (`election.registry`).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from hashlib import sha256
from typing import Final
from zlib import crc32

from samerack.cluster.client import ClusterClient
from samerack.cluster.group import STABLE, DescribedGroup
from samerack.cluster.group_member import GroupMember, Joined
from samerack.common.patterns import selects
from samerack.election.messages import (
    PROTOCOL,
    PROTOCOL_TYPE,
    WAITING_PROTOCOL,
    Advertisement,
    Verdict,
    decode_advertisement,
    decode_verdict,
    encode,
    identifies_host,
    lead,
    led_by,
    observed_by,
)
from samerack.settings.leading import ElectionSettings

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
    able = responsibilities_of(group)
    return (
        Place.INSIDE
        if any(able[responsibility] < CANDIDATES for responsibility in me.responsibilities)
        else Place.OUTSIDE
    )


def responsibilities_of(group: DescribedGroup) -> Counter[str]:
    """Return how many agents of an election offer each responsibility; its group is stable."""
    return Counter(
        responsibility
        for member in group.members
        for responsibility in set(decode_advertisement(member.member_id, member.member_metadata).responsibilities)
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
    """Return the seconds until a waiting agent polls again whether it is needed in an election of this size.

    The response grows with the election's members, so polls become rarer with them: all waiting agents of a fleet
    together receive few bytes per second. By `chance`, a random number from 0 to 1, agents that started together do not
    poll together.
    """
    mean = min(_MAX_PAUSE_SECONDS, max(_MIN_PAUSE_SECONDS, _PAUSE_SECONDS_PER_MEMBER * members))
    return mean * (0.5 + chance)


# Chooses which agent is active for what: pure functions of what all agents advertise, so every agent would agree.
#
# A new agent never displaces an active, healthy one. A responsibility that no agent holds goes to the agent that holds
# most already, so that of several agents with the same settings one is active.


def choose(present: Mapping[str, Advertisement], term: int) -> dict[str, Verdict]:
    """Compute the verdict for every member from what each advertises, by member id, in the election `term`."""
    able: dict[str, list[str]] = defaultdict(list)
    for member in sorted(present):
        for responsibility in present[member].responsibilities:
            able[responsibility].append(member)
    chosen: dict[str, str] = {}
    for responsibility, members in able.items():
        holders = [member for member in members if responsibility in present[member].held]
        if holders:
            chosen[responsibility] = max(holders, key=lambda member: (present[member].term, member))
    busy = Counter(chosen.values())
    for responsibility in sorted(able.keys() - chosen.keys()):
        chosen[responsibility] = max(
            able[responsibility], key=lambda member: (busy[member], crc32(present[member].identity.encode()))
        )
        busy[chosen[responsibility]] += 1
    # all verdicts go into one record, so each holds only what its member needs
    racks = racks_by_address(present.values()) if len(present) <= ROOM else {}
    measuring = _measuring(present, chosen)
    active: dict[str, set[str]] = defaultdict(set)
    for responsibility, holder in chosen.items():
        active[holder].add(responsibility)
    waits = surplus(present, active.keys())
    return {
        member: Verdict(
            term=term,
            agents=len(present),
            active=frozenset(active[member]),
            with_standby=frozenset(
                responsibility for responsibility in active[member] if len(able[responsibility]) > 1
            ),
            racks=racks if active[member] else {},
            # who observes has to know of all others that lead
            measuring=measuring if observed_by(active[member]) else measuring & active[member],
            waits=member in waits,
        )
        for member in present
    }


def _measuring(present: Mapping[str, Advertisement], chosen: Mapping[str, str]) -> frozenset[str]:
    """Return the responsibilities by which groups are measured: all but to lead a group without measuring it."""
    unmeasured = set()
    for member in set(chosen.values()):
        patterns = observed_by(present[member].responsibilities)
        for group in led_by(responsibility for responsibility, holder in chosen.items() if holder == member):
            if patterns and not selects(patterns, group):
                unmeasured.add(lead(group))
    return frozenset(chosen.keys() - unmeasured)


def racks_by_address(present: Iterable[Advertisement]) -> dict[str, str]:
    """Return the rack of each address; addresses with two racks are ambiguous and left out."""
    said: dict[str, set[str]] = defaultdict(set)
    for one in present:
        if one.rack:
            for address in filter(identifies_host, one.addresses):
                said[address].add(one.rack)
    return {address: next(iter(racks)) for address, racks in sorted(said.items()) if len(racks) == 1}


ELECTION_HEARTBEAT_SECONDS: Final = 0.5
"""A hand-over takes about as long; three agents for each group send these."""
_ELECTION_REBALANCE_SECONDS: Final = 5.0
"""How long an election waits for an agent that does not answer."""
WAITING_SESSION_SECONDS: Final = 30.0
WAITING_HEARTBEAT_SECONDS: Final = 5.0
WAITING_REBALANCE_SECONDS: Final = 15.0
"""For waiting agents, of which there may be thousands: no agent waits for what they send."""


class _AgentMember(GroupMember):
    """Base class of the members of both kinds of groups."""

    parked_seconds = 60.0  # all members are agents, with short rebalance timeouts

    def protocol_type(self) -> str:
        """Return a type of its own, so that the group is not taken for a consumer group."""
        return PROTOCOL_TYPE


class ElectionMember(_AgentMember):
    """A static member of the election: after an immediate restart it keeps its responsibilities."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        settings: ElectionSettings,
        advertisement: Advertisement,
        wake: Callable[[], None],
    ) -> None:
        """Prepare; nothing is sent before `join`. `wake` is called from the network thread when an election is due."""
        super().__init__(
            client,
            group=settings.group,
            instance_id=advertisement.identity,
            session_seconds=settings.session_timeout_seconds,
            heartbeat_seconds=ELECTION_HEARTBEAT_SECONDS,
            rebalance_seconds=_ELECTION_REBALANCE_SECONDS,
            assign=_verdicts,
            wake=wake,
        )
        self.advertisement = advertisement
        """What this agent advertises, before it holds anything; a change takes effect when it joins again."""
        self._sent = self.advertisement
        self.verdict: Verdict | None = None
        self._sure_seconds = min(settings.session_timeout_seconds, _ELECTION_REBALANCE_SECONDS)

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Return what this agent advertises and holds."""
        self._sent = advertisement = self.advertisement
        verdict = self.verdict
        if verdict is not None:
            advertisement = advertisement.model_copy(
                update={"held": tuple(sorted(verdict.active)), "term": verdict.term}
            )
        return [(PROTOCOL, encode(advertisement))]

    @property
    def news(self) -> str:
        """What this agent advertises since it sent its last JoinGroup, which may be parked for seconds; else empty."""
        return "leads other groups than before" if self._sent is not self.advertisement else ""

    @property
    def offered(self) -> frozenset[str]:
        """The responsibilities that its last JoinGroup offers."""
        return frozenset(self._sent.responsibilities)

    def is_sure_of(self, verdict: Verdict) -> bool:
        """Return whether no election can have taken place since the one of this verdict.

        Brokers remove a member after its session timeout, and continue without it after the rebalance timeout.
        """
        return (
            self.generation_id == verdict.term
            and not self.wants_join
            and not self.fenced
            and time.monotonic() - self.well_at < self._sure_seconds
        )

    def _take(self, content: bytes) -> None:
        verdict = decode_verdict(content)
        if verdict is not None:
            # the group's leader may be older, or no agent at all: only offered responsibilities are accepted
            able = frozenset(self.advertisement.responsibilities)
            self.verdict = verdict.model_copy(
                update={"active": verdict.active & able, "with_standby": verdict.with_standby & able}
            )


class WaitingMember(_AgentMember):
    """A static member of one of the waiting groups."""

    def __init__(
        self, client: ClusterClient, *, election: str, advertisement: Advertisement, wake: Callable[[], None]
    ) -> None:
        """Prepare; nothing is sent before `join`, and of what this agent advertises only rack and addresses."""
        super().__init__(
            client,
            group=waiting_group(election, advertisement.identity),
            instance_id=waiting_instance(advertisement.identity),
            session_seconds=WAITING_SESSION_SECONDS,
            heartbeat_seconds=WAITING_HEARTBEAT_SECONDS,
            rebalance_seconds=WAITING_REBALANCE_SECONDS,
            assign=_what_each_sent,
            wake=wake,
        )
        self._advertisement = Advertisement(rack=advertisement.rack, addresses=advertisement.addresses)

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Return where this agent runs."""
        return [(WAITING_PROTOCOL, encode(self._advertisement))]

    def _take(self, content: bytes) -> None:
        """Ignore the assignment: it is this agent's own metadata, for those that describe the group."""


def _verdicts(joined: Joined) -> dict[str, bytes]:
    present = {member: decode_advertisement(member, metadata) for member, _, metadata in joined.members}
    return {member: encode(verdict) for member, verdict in choose(present, joined.generation).items()}


def _what_each_sent(joined: Joined) -> dict[str, bytes]:
    return {member: metadata for member, _, metadata in joined.members}
