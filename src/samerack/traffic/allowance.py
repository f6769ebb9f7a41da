"""Limits how much a member can have read: checks clients' reports against the logs that brokers describe.

A member can have read each of its partitions once from its beginning to its end, what was written since, and the
envelopes of its fetches. Twice all of it is allowed, for what no log shows: batches that are cut off and fetched again,
and data that is fetched and dropped. Commits that go back allow a partition to be read from its beginning once more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from samerack.common.words import size
from samerack.traffic.collect import Partition
from samerack.traffic.curve import Curve, bytes_between
from samerack.traffic.overhead import overhead_bytes
from samerack.traffic.statistics import Read

MemberKey: TypeAlias = tuple[str, str]
"""Group and member id."""

_SLACK: Final = 2.0
_FREE_BYTES: Final = 4 << 20
"""Beyond the logs: metadata of a large cluster, and partitions that were owned between two polls only."""
_FREE_RECORDS: Final = 10_000
_BATCHES_PER_SECOND: Final = 100.0
"""At least this many are assumed for the envelopes: `fetch.wait.max.ms` may be far below its default."""


@dataclass(slots=True, kw_only=True)
class _Left:
    """What may still be read of one partition, as its log was when it ended at `end`."""

    end: int
    wire_bytes: float
    records: float


@dataclass(slots=True, kw_only=True)
class _Allowance:
    """What one member may still read: of its partitions, and beyond them."""

    at: float
    wire_bytes: float = float(_FREE_BYTES)
    records: float = float(_FREE_RECORDS)
    partitions: dict[Partition, _Left] = field(default_factory=dict)


class Allowances:
    """What the members whose clients report reads may still report."""

    def __init__(self) -> None:
        self._members: dict[MemberKey, _Allowance] = {}

    def keep(self, members: Collection[MemberKey]) -> None:
        """Forget all others."""
        self._members = {key: member for key, member in self._members.items() if key in members}

    def rewound(self, group: str, partitions: Collection[Partition]) -> None:
        """Reset partitions in which a group's commits went back: they may be read from their beginning again."""
        for (name, _), member in self._members.items():
            if name == group:
                for partition in partitions:
                    member.partitions.pop(partition, None)

    def take(
        self,
        key: MemberKey,
        reads: Sequence[Read],
        *,
        owned: Iterable[Partition],
        curves: Mapping[Partition, Curve],
        now: float,
    ) -> str:
        """Subtract a member's report from its allowance; return why the report is impossible, or "".

        `reads` is what it reports since the last time, `owned` what it owns according to the brokers; the logs of
        `curves` were polled after the report. `now` is monotonic.
        """
        member = self._members.setdefault(key, _Allowance(at=now))
        grown = sum(_refill(member, partition, curves[partition]) for partition in member.partitions.keys() & curves)
        for partition in owned:
            if partition not in member.partitions and partition in curves:
                member.partitions[partition] = _whole(curves[partition])
        named = dict.fromkeys(read.partition for read in reads)
        _refill_envelopes(member, partitions=len(named), batches=grown, seconds=now - member.at)
        member.at = now
        left = [member.partitions[partition] for partition in named if partition in member.partitions]
        wire_bytes, records = sum(read.wire_bytes for read in reads), sum(read.records for read in reads)
        of_bytes, of_records = sum(one.wire_bytes for one in left), sum(one.records for one in left)
        if wire_bytes > of_bytes + member.wire_bytes:
            return _why(size(wire_bytes), size(of_bytes + member.wire_bytes), len(named))
        if records > of_records + member.records:
            return _why(f"{records} records", f"{of_records + member.records:.0f}", len(named))
        byte_share = min(1.0, wire_bytes / of_bytes) if of_bytes else 0.0
        record_share = min(1.0, records / of_records) if of_records else 0.0
        for one in left:
            one.wire_bytes *= 1.0 - byte_share
            one.records *= 1.0 - record_share
        member.wire_bytes -= max(0.0, wire_bytes - of_bytes)
        member.records -= max(0.0, records - of_records)
        return ""


def _whole(curve: Curve) -> _Left:
    """Return what a whole log allows; its size alone does not include tiered segments."""
    records = curve.extent.end - curve.extent.start
    wire_bytes = max(float(curve.extent.size_bytes), records * curve.density)
    return _Left(end=curve.extent.end, wire_bytes=_SLACK * wire_bytes, records=_SLACK * records)


def _refill(member: _Allowance, partition: Partition, curve: Curve) -> int:
    """Add what was written since the last time; return how many records. What was left is capped at the whole log."""
    before, whole = member.partitions[partition], _whole(curve)
    records = curve.extent.end - before.end
    if records < 0:  # another log
        member.partitions[partition] = whole
        return curve.extent.end - curve.extent.start
    wire_bytes = max(bytes_between(curve, before.end, curve.extent.end), records * curve.density)
    member.partitions[partition] = _Left(
        end=curve.extent.end,
        wire_bytes=min(before.wire_bytes, whole.wire_bytes) + _SLACK * wire_bytes,
        records=min(before.records, whole.records) + _SLACK * records,
    )
    return records


def _refill_envelopes(member: _Allowance, *, partitions: int, batches: int, seconds: float) -> None:
    added = 0.0
    if seconds > 0:
        added = overhead_bytes(
            partitions=partitions,
            batches_per_second=max(_BATCHES_PER_SECOND, batches / seconds),
            seconds=seconds,
            sessions=False,
        )
    member.wire_bytes = min(member.wire_bytes, float(_FREE_BYTES)) + _SLACK * added
    member.records = min(float(_FREE_RECORDS), member.records + _FREE_RECORDS * max(0.0, seconds) / 60.0)


def _why(reported: str, allowed: str, partitions: int) -> str:
    return (
        f"its client reports that it read {reported}, and the logs of its {partitions} partitions had {allowed} for it "
        "at most, read twice over"
    )
