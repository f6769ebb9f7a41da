"""The lag of one group by topic, rack, member and partition, as values that the agent sends as JSON.

The group's page and `samerack lag` show these values. Of a partition None is what is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, TypeAlias

from samerack.common.records import JsonAnswer
from samerack.traffic.lag import lag_of_all, oldest_of_all
from samerack.traffic.snapshot import (
    UNPLANNED_KINDS,
    BlindSpot,
    GroupTraffic,
    LowerBound,
    ObservedMember,
    Pace,
    PartitionTraffic,
)

PaceInWords: TypeAlias = Literal["falls behind", "stays behind", "catches up", "keeps up"]
"""How a member reads: its lag grows, is large and does not change, shrinks, or is small."""
_CATCHES_UP: Final = 1.02
"""A member that is behind and reads more than this part of its load catches up."""
_SILENT_SECONDS: Final = 60.0
"""Whether a member with older records keeps up is not known before its next commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of several partitions, as JSON and pages have it: of a topic, a member or a group.

    Attributes:
        lag_records: records that are not read yet, at least; None if nothing is known.
        lag_seconds: the age of the oldest of them, at least; 0 without any, None if nothing is known.
        lag_unknown_partitions: partitions that `lag_records` lacks; with 0 it is exact.
        lag_seconds_unknown_partitions: the same of `lag_seconds`.
    """

    lag_records: int | None = None
    lag_seconds: float | None = None
    lag_unknown_partitions: int = 0
    lag_seconds_unknown_partitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLag(Lag):
    """A member, or those of one rack, with the wire bytes per second read; the lag is 0 without partitions.

    All is None while the members do not show what they own, and no partition is known to be theirs.
    """

    rack: str | None
    partitions: int | None
    bytes_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLag(ReaderLag):
    """One member."""

    member_id: str
    client_id: str
    pace: PaceInWords | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RackLag(ReaderLag):
    """The members of one rack, or those of which none is known.

    Attributes:
        members_behind: those that fall behind, at least; None if that of no member is known.
        members_unknown: those of which it is not known.
    """

    members: int
    members_behind: int | None
    members_unknown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition, the member that reads it, if any, and the rack of the replica that serves it."""

    topic: str
    partition: int
    committed: int | None
    lag_records: int | None
    lag_seconds: float | None
    member_id: str | None
    client_id: str | None
    rack: str | None
    serving_rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag(Lag):
    """One group of the cluster with these `bootstrap.servers`, its state as the brokers name it."""

    bootstrap: str
    group: str
    state: str
    topics: Mapping[str, Lag]
    racks: tuple[RackLag, ...]
    members: tuple[MemberLag, ...]
    partitions: tuple[PartitionLag, ...]


def _lag(records: LowerBound[int], seconds: LowerBound[float]) -> Lag:
    return Lag(
        lag_records=records.value,
        lag_seconds=seconds.value,
        lag_unknown_partitions=records.unknown,
        lag_seconds_unknown_partitions=seconds.unknown,
    )


def lag_of_group(group: GroupTraffic) -> Lag:
    """Return the lag of all topics of a group together."""
    return _lag(lag_of_all(group.lag.values()), oldest_of_all(group.lag_seconds.values()))


def lag_of_topic(group: GroupTraffic, topic: str) -> Lag:
    """Return the lag of one topic of a group."""
    return _lag(group.lag.get(topic, LowerBound()), group.lag_seconds.get(topic, LowerBound()))


def largest_first(value: float | None, unknown: int = 0) -> tuple[bool, float]:
    """Return the sort key of a figure in tables: what is not known, or not in whole, comes before the largest."""
    return value is not None and not unknown, -(value or 0)


def group_lag(group: GroupTraffic, *, bootstrap: str = "") -> GroupLag:
    """Return the lag of a measured group; what it reads is not known before one commit interval is measured."""
    if BlindSpot.YOUNG in group.blind_spots:
        group = replace(group, partitions=[replace(partition, bytes_per_second=None) for partition in group.partitions])
    by_id, owned = {member.id: member for member in group.members}, group.owned_by_member()
    shows = group.owned_known and group.kind not in UNPLANNED_KINDS
    members = tuple(_of_member(member, owned[member.id], group, shows_owned=shows) for member in group.members)
    racks = sorted({member.rack for member in members}, key=lambda rack: (rack is None, rack))
    return GroupLag(
        bootstrap=bootstrap,
        group=group.group,
        state=group.state,
        **asdict(lag_of_group(group)),
        topics={topic: lag_of_topic(group, topic) for topic in group.lag},
        racks=tuple(_of_rack([one for one in members if one.rack == rack], owned, shows_owned=shows) for rack in racks),
        members=members,
        partitions=tuple(_of_partition(partition, by_id.get(partition.member or "")) for partition in group.partitions),
    )


def _of_readers(rack: str | None, owned: Sequence[PartitionTraffic], *, shows_owned: bool) -> ReaderLag:
    if not owned and not shows_owned:
        return ReaderLag(rack=rack, partitions=None, bytes_per_second=None)
    lag = _lag(
        lag_of_all(one.lag_records for one in owned) if owned else LowerBound(value=0),
        oldest_of_all(one.lag_seconds for one in owned) if owned else LowerBound(value=0.0),
    )
    rates = [one.bytes_per_second for one in owned]
    known = [rate for rate in rates if rate is not None]
    return ReaderLag(
        rack=rack,
        partitions=len(owned),
        bytes_per_second=sum(known) if len(known) == len(rates) else None,
        **asdict(lag),
    )


def _of_member(
    member: ObservedMember, owned: Sequence[PartitionTraffic], group: GroupTraffic, *, shows_owned: bool
) -> MemberLag:
    reads = _of_readers(member.rack.rack, owned, shows_owned=shows_owned)
    pace = _in_words(group.paces.get(member.id), reads) if shows_owned else None
    return MemberLag(member_id=member.id, client_id=member.client_id, pace=pace, **asdict(reads))


def _of_rack(
    members: Sequence[MemberLag], owned: Mapping[str, Sequence[PartitionTraffic]], *, shows_owned: bool
) -> RackLag:
    theirs = [one for member in members for one in owned[member.member_id]]
    paces = [one.pace for one in members]
    unknown = paces.count(None)
    return RackLag(
        members=len(members),
        members_behind=None if unknown == len(paces) else paces.count("falls behind"),
        members_unknown=unknown,
        **asdict(_of_readers(members[0].rack, theirs, shows_owned=shows_owned)),
    )


def _in_words(pace: Pace | None, lag: Lag) -> PaceInWords | None:
    """Return how a member reads; None if its commits do not show it, or some of its lag is not known."""
    if pace is None:
        age = lag.lag_seconds
        is_known = age is not None and age <= _SILENT_SECONDS and not lag.lag_seconds_unknown_partitions
        return "keeps up" if is_known else None
    if pace.grows:
        return "falls behind"
    if pace.share is None:
        return None
    return "catches up" if pace.share > _CATCHES_UP else "stays behind"


def _of_partition(one: PartitionTraffic, member: ObservedMember | None) -> PartitionLag:
    return PartitionLag(
        topic=one.topic,
        partition=one.number,
        committed=one.committed,
        lag_records=one.lag_records,
        lag_seconds=one.lag_seconds,
        member_id=one.member,
        client_id=None if member is None else member.client_id,
        rack=None if member is None else member.rack.rack,
        serving_rack=one.serving_rack,
    )


_JSON: Final = JsonAnswer(GroupLag, "is not a group's lag")
to_json, from_json = _JSON.to_json, _JSON.from_json
"""The JSON of `GET /v1/lag` and `samerack lag --json`."""
