"""The lag of one group by topic, member and partition, as values that the agent sends as JSON.

The group's page and `samerack lag` show these values. Of a partition None is what is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from samerack.common.records import JsonAnswer
from samerack.traffic.lag import lag_of_all, oldest_of_all
from samerack.traffic.snapshot import GroupTraffic, LowerBound, ObservedMember, PartitionTraffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of several partitions, as JSON and pages have it: of a topic, a member or a group.

    Attributes:
        lag_records: records that are not read yet, at least; None if nothing is known.
        lag_seconds: the age of the oldest of them, at least; 0 if there is none, None if nothing is known.
        lag_unknown_partitions: partitions that `lag_records` lacks; with 0 it is exact.
        lag_seconds_unknown_partitions: the same of `lag_seconds`.
    """

    lag_records: int | None = None
    lag_seconds: float | None = None
    lag_unknown_partitions: int = 0
    lag_seconds_unknown_partitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLag(Lag):
    """One member, with the wire bytes per second that it reads; its lag is 0 if it has no partitions."""

    member_id: str
    client_id: str
    rack: str | None
    partitions: int
    bytes_per_second: float | None


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
    """Return the lag of a measured group."""
    members = {member.id: member for member in group.members}
    owned: dict[str, list[PartitionTraffic]] = {member: [] for member in members}
    for one in group.partitions:
        if one.member in owned:
            owned[one.member].append(one)
    return GroupLag(
        bootstrap=bootstrap,
        group=group.group,
        state=group.state,
        **asdict(lag_of_group(group)),
        topics={topic: lag_of_topic(group, topic) for topic in group.lag},
        members=tuple(_of_member(member, owned[member.id]) for member in group.members),
        partitions=tuple(_of_partition(one, members.get(one.member or "")) for one in group.partitions),
    )


def _of_member(member: ObservedMember, owned: list[PartitionTraffic]) -> MemberLag:
    lag = _lag(
        lag_of_all(one.lag_records for one in owned) if owned else LowerBound(value=0),
        oldest_of_all(one.lag_seconds for one in owned) if owned else LowerBound(value=0.0),
    )
    rates = [one.bytes_per_second for one in owned]
    known = [rate for rate in rates if rate is not None]
    return MemberLag(
        member_id=member.id,
        client_id=member.client_id,
        rack=member.rack.rack,
        partitions=len(owned),
        bytes_per_second=sum(known) if len(known) == len(rates) else None,
        **asdict(lag),
    )


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
