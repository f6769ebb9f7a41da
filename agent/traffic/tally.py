"""From parts to flows: estimates calibrated, exact members counted by what they told, all summed by key and rounded.

Pure but for the memory of the calibration and of what rounding left over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from agent.traffic.attribute import Part
from agent.traffic.groups import ObservedMember
from agent.traffic.model import Flow, FlowKey, Method, Volume
from agent.traffic.statistics import Read

_ENOUGH_BYTES: Final = 1 << 20
"""A calibration needs so many exact bytes before it says anything."""
_FORGET: Final = 0.98
"""Of old bytes this share counts on at each commit: with one in 5 s, a third after five minutes."""
_MOST_UNSURE: Final = 0.025
"""While it is unknown of more than this share of what was told whether the estimate has it, the ratio says nothing."""
_LEAST_FACTOR: Final = 0.5
_MOST_FACTOR: Final = 2.0
"""A factor beyond is no error of the estimate but a member that does not commit, or another's statistics."""


@dataclass(slots=True, kw_only=True)
class Calibration:
    """Exact and estimated bytes of the members that are known both ways, from the first commit seen to the last.

    Clients count what they receive at once, and the estimate follows with the commit: without waiting for it exact
    bytes would always be ahead. A commit falls somewhere between two looks: half of what came since the last waits on.
    That half may be wrong by as much again: of a few commits, or of the first of a burst, it would decide the ratio.

    Attributes:
        exact: what the members told, older bytes weighing less.
        estimated: the same, estimated.
        factor: what estimates are multiplied with; 1 until it is known, or while the two do not fit together.
        begun: whether there was a commit.
        waiting_exact: what was told since the last commit.
        waiting_estimated: what was estimated since.
    """

    exact: float = 0.0
    estimated: float = 0.0
    factor: float = 1.0
    begun: bool = False
    waiting_exact: float = 0.0
    waiting_estimated: float = 0.0

    def add(self, exact: float, estimated: float, *, committed: bool) -> None:
        """One cycle more; `committed` tells whether offsets moved in it."""
        self.waiting_exact += exact
        self.waiting_estimated += estimated
        if not committed:
            return
        if self.begun:
            self.exact = self.exact * _FORGET + self.waiting_exact - exact / 2
            self.estimated = self.estimated * _FORGET + self.waiting_estimated
        self.begun, self.waiting_exact, self.waiting_estimated = True, exact / 2, 0.0
        if min(self.exact, self.estimated) >= _ENOUGH_BYTES and exact / 2 <= self.exact * _MOST_UNSURE:
            factor = self.exact / self.estimated
            self.factor = factor if _LEAST_FACTOR <= factor <= _MOST_FACTOR else 1.0


@dataclass(slots=True, kw_only=True)
class Tally:
    """What is remembered from cycle to cycle; of each key the first object, since the window keeps many flows."""

    keys: dict[FlowKey, FlowKey] = field(default_factory=dict)
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    left_over: dict[FlowKey, float] = field(default_factory=dict)
    counted_left_over: dict[FlowKey, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """One group's cycle.

    Attributes:
        flows: what was read.
        counted: what of it this agent is to count.
        estimated: by member id, bytes of `counted` that are estimated.
    """

    flows: tuple[Flow, ...]
    counted: tuple[Flow, ...]
    estimated: Mapping[str, float]


def everybody(_member: ObservedMember | None) -> bool:
    """Counts whoever reads, and what nobody is known to read."""
    return True


def count(  # noqa: PLR0913 - one group's cycle, and all are named
    tally: Tally,
    group: str,
    parts: Iterable[Part],
    exact: Mapping[str, Iterable[Read]],
    *,
    exact_members: Mapping[str, ObservedMember],
    rack_of: Callable[[int | None], str],
    counts: Callable[[ObservedMember | None], bool] = everybody,
) -> Count:
    """The flows of one group in one cycle.

    Args:
        tally: Memory; changed.
        group: The group.
        parts: Estimated bytes.
        exact: What clients told since the last cycle, by member id.
        exact_members: Members that are known exactly at present, by id: their estimates calibrate and do not count.
        rack_of: The rack of a broker, "" where unknown.
        counts: Whether what is estimated for a member is this agent's to count; exact bytes always are.
    """
    calibration = tally.calibrations.setdefault(group, Calibration())
    factor = calibration.factor
    sums: dict[FlowKey, list[float]] = {}
    counted: dict[FlowKey, list[float]] = {}
    shadow = 0.0
    committed = False
    estimated: dict[str, float] = {}
    for part in parts:
        member = part.member
        if member is not None and member.id in exact_members:
            shadow += part.wire_bytes
            committed = committed or part.records > 0
            continue
        wire_bytes = part.wire_bytes * factor
        key = _key(group, part.partition[0], member, rack_of(part.broker), "estimated")
        _add(sums, key, wire_bytes, part.records)
        if not counts(member):
            continue
        _add(counted, key, wire_bytes, part.records)
        if member is not None:
            estimated[member.id] = estimated.get(member.id, 0.0) + wire_bytes
    reported = 0.0
    for member_id, reads in exact.items():
        member = exact_members.get(member_id)
        for read in reads:
            reported += read.wire_bytes
            key = _key(group, read.partition[0], member, rack_of(read.broker), "exact")
            _add(sums, key, read.wire_bytes, read.records)
            _add(counted, key, read.wire_bytes, read.records)
    if reported or shadow:
        calibration.add(reported, shadow, committed=committed)
    return Count(
        flows=_rounded(sums, tally.left_over, tally.keys),
        counted=_rounded(counted, tally.counted_left_over, tally.keys),
        estimated=estimated,
    )


def _key(group: str, topic: str, member: ObservedMember | None, replica_rack: str, method: Method) -> FlowKey:
    rack = member.rack.rack if member is not None else None
    return FlowKey(group=group, topic=topic, client_rack=rack or "", replica_rack=replica_rack, method=method)


def _add(sums: dict[FlowKey, list[float]], key: FlowKey, wire_bytes: float, records: int) -> None:
    row = sums.setdefault(key, [0.0, 0.0])
    row[0] += wire_bytes
    row[1] += records


def _rounded(
    sums: Mapping[FlowKey, list[float]], left_over: dict[FlowKey, float], keys: dict[FlowKey, FlowKey]
) -> tuple[Flow, ...]:
    """Whole bytes; what is left over counts in the next cycle, so that nothing is lost by rounding."""
    flows = []
    for key, (wire_bytes, records) in sums.items():
        exact = wire_bytes + left_over.pop(key, 0.0)
        whole = int(exact)
        if exact > whole:
            left_over[key] = exact - whole
        flows.append(Flow(key=keys.setdefault(key, key), volume=Volume(wire_bytes=whole, records=round(records))))
    return tuple(flows)
