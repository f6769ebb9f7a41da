"""The state of a classic group at its coordinator, and the requests and answers of its members, as values.

The order of members is that of the coordinator's hash table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from samerack.protocol.java import FIRST_TABLE, spread_hash, string_hash
from tests.java_maps import put_order

AGENTS = "samerack"  # `client.id` of all agents: the default


class Error(IntEnum):
    """Kafka's error codes that a group's coordinator uses."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    GROUP_AUTHORIZATION_FAILED = 30
    UNSUPPORTED_VERSION = 35
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82


_ALWAYS = (
    "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR UNKNOWN_SERVER_ERROR "
    "GROUP_AUTHORIZATION_FAILED"
)


def _errors(names: str = "") -> tuple[Error, ...]:
    return tuple(Error[name] for name in f"{_ALWAYS} {names}".split())


ERRORS: dict[str, tuple[Error, ...]] = {
    "join": _errors(
        "INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT REBALANCE_IN_PROGRESS "
        "UNSUPPORTED_VERSION GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID"
    ),
    "sync": _errors(
        "ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID"
    ),
    "heartbeat": _errors("ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID"),
    "leave": _errors("UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID"),
    "find": _errors("INVALID_GROUP_ID"),
    "describe": _errors(),
    "commits": _errors(),
}
"""The possible errors of each request of a member."""


class State(IntEnum):
    """States of a classic group that exists; one that does not is described as Dead."""

    EMPTY = 0
    PREPARING = 1
    COMPLETING = 2
    STABLE = 3


NAMES = {
    State.EMPTY: "Empty",
    State.PREPARING: "PreparingRebalance",
    State.COMPLETING: "CompletingRebalance",
    State.STABLE: "Stable",
}
Protocols = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup request, version 9."""

    member_id: str
    instance_id: str | None
    protocols: Protocols
    session_ms: int
    rebalance_ms: int
    protocol_type: str = "consumer"
    client_id: str = "client"
    client_host: str = "10.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to JoinGroup; only the leader gets `members` (id, instance id, metadata)."""

    error: Error = Error.NONE
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup request, version 5; only the leader sends assignments, by member id."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol: str
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to SyncGroup."""

    error: Error = Error.NONE
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class DescribedMember:
    """One member of a DescribeGroups answer, with kafka-python's field names."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A DescribeGroups answer, version 5."""

    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(slots=True, kw_only=True)
class GroupMember:
    """One member; the callbacks are parked requests."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: Protocols
    since: int = 0  # when it joined the group
    assignment: bytes = b""
    is_new: bool = False
    joining: Callable[[Joined], None] | None = None
    syncing: Callable[[Synced], None] | None = None

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for this protocol."""
        return dict(self.protocols).get(protocol, b"")


class Table:
    """Members by id, in the order of java.util.HashMap: by bucket, then by insertion; the table never shrinks."""

    def __init__(self) -> None:
        self._members: dict[str, GroupMember] = {}
        self._buckets = FIRST_TABLE
        self._listed: tuple[GroupMember, ...] | None = ()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __iter__(self) -> Iterator[GroupMember]:
        if self._listed is None:
            mask = self._buckets - 1
            self._listed = tuple(sorted(self._members.values(), key=lambda member: spread_hash(member.id) & mask))
        return iter(self._listed)

    def get(self, member_id: str) -> GroupMember | None:
        """A member, or None."""
        return self._members.get(member_id)

    def put(self, member: GroupMember) -> None:
        """Add a member, last in its bucket."""
        self._members[member.id] = member
        while len(self._members) > self._buckets * 3 // 4:
            self._buckets *= 2
        self._listed = None

    def pop(self, member_id: str) -> GroupMember | None:
        """Remove and return a member, or None."""
        self._listed = None
        return self._members.pop(member_id, None)


@dataclass(slots=True, kw_only=True)
class Group:
    """The coordinator's state of one group."""

    state: State = State.EMPTY
    before: State = State.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: Table = field(default_factory=Table)
    static: dict[str, str] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    """Client ids by pending member id: ids that were given out and have not joined yet."""
    unsynced: set[str] = field(default_factory=set)
    new_member: bool = False

    def become(self, state: State) -> None:
        """Change the state."""
        self.before, self.state = self.state, state

    @property
    def forms(self) -> bool:
        """Whether it was empty, and its first rebalance since then has not ended: no member has partitions."""
        return self.state is State.PREPARING and self.before is State.EMPTY

    def add(self, member: GroupMember) -> None:
        """Add a member; the first one leads."""
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        self.leader = self.leader or member.id
        self.members.put(member)
        self.pending.pop(member.id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id; if it led, the first of the others leads."""
        member = self.members.pop(member_id)
        if member is not None and member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next((other.id for other in self.members), "")
        self.pending.pop(member_id, None)
        self.unsynced.discard(member_id)

    def all_joined(self) -> bool:
        """Whether all members have joined and no id is pending."""
        return not self.pending and all(member.joining is not None for member in self.members)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and bool({name for name, _ in protocols} & self.common())

    def common(self) -> set[str]:
        """Protocols that all members have."""
        names = [{name for name, _ in member.protocols} for member in self.members]
        return set.intersection(*names) if names else set()

    def elected_protocol(self) -> str:
        """The vote: each member's first common protocol; the most votes win, then the first in hash order."""
        common = self.common()
        votes: dict[str, int] = {}
        for member in self.members:
            choice = next(name for name, _ in member.protocols if name in common)
            votes[choice] = votes.get(choice, 0) + 1
        return max(put_order(votes, string_hash), key=lambda name: votes[name])  # max keeps the first of equals

    def record_bytes(self) -> int:
        """How large the group's record with its present assignments is, as brokers write it."""
        return (
            sum(
                len(part)
                for member in self.members
                for part in (
                    member.id.encode(),
                    (member.instance_id or "").encode(),
                    member.client_id.encode(),
                    member.client_host.encode(),
                    member.metadata(self.protocol),
                    member.assignment,
                    bytes(24),  # lengths and timeouts
                )
            )
            + len(self.leader)
            + len(self.protocol)
            + 100
        )

    def rebalance_ms(self) -> int:
        """The longest rebalance timeout of a member."""
        return max((member.rebalance_ms for member in self.members), default=0)

    def as_answered(self) -> tuple[tuple[str, str | None, bytes], ...]:
        """The members as in the leader's JoinGroup answer."""
        return tuple((member.id, member.instance_id, member.metadata(self.protocol)) for member in self.members)

    def described(self) -> Described:
        """The DescribeGroups answer: metadata and protocol only if the group is stable."""
        stable = self.state is State.STABLE
        return Described(
            state=NAMES[self.state],
            protocol_type=self.protocol_type,
            protocol=self.protocol if stable else "",
            members=tuple(
                DescribedMember(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(self.protocol) if stable else b"",
                    member_assignment=member.assignment,
                )
                for member in self.members
            ),
        )
