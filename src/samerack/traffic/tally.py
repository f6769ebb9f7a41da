"""Converts parts to flows: calibrates estimates, counts exact members by their reports, sums by key, and rounds.

Pure but for the state of the calibration and the remainders of rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from samerack.traffic.attribute import AttributedBytes
from samerack.traffic.snapshot import Flow, FlowKey, Method, ObservedMember, Volume
from samerack.traffic.statistics import Read

_ENOUGH_BYTES: Final = 1 << 20
"""A calibration needs this many bytes before it sets a factor."""
_FORGET: Final = 0.98
"""At each commit this share of old bytes is kept: with one in 5 s, a third after five minutes."""
_MAX_UNSURE: Final = 0.025
"""While more than this share of the reported bytes may be missing in the estimate, the ratio is not used."""
_MIN_FACTOR: Final = 0.5
_MAX_FACTOR: Final = 2.0
"""A factor beyond these is no error of the estimate: a member does not commit, or the statistics are another's."""


@dataclass(slots=True, kw_only=True)
class Calibration:
    """Exact and estimated bytes of the members that are known both ways, from the first commit seen to the last.

    Clients count bytes when they receive them, and the estimate follows with the commit: without waiting for it exact
    bytes would always be ahead. A commit falls somewhere between two polls: half of what came between them keeps
    waiting. That half may be wrong by as much again: with few commits, or the first of a burst, it decides the ratio.

    Attributes:
        exact: what the members reported, older bytes weighing less.
        estimated: the same, estimated.
        factor: the multiplier of estimates; 1 until it is known, or while the two contradict each other.
        begun: whether there was a commit.
        waiting_exact: what was reported since the last commit.
        waiting_estimated: what was estimated since.
    """

    exact: float = 0.0
    estimated: float = 0.0
    factor: float = 1.0
    begun: bool = False
    waiting_exact: float = 0.0
    waiting_estimated: float = 0.0

    def add(self, exact: float, estimated: float, *, committed: bool) -> None:
        """Add one cycle; `committed` says whether offsets moved in it."""
        self.waiting_exact += exact
        self.waiting_estimated += estimated
        if not committed:
            return
        if self.begun:
            self.exact = self.exact * _FORGET + self.waiting_exact - exact / 2
            self.estimated = self.estimated * _FORGET + self.waiting_estimated
        self.begun, self.waiting_exact, self.waiting_estimated = True, exact / 2, 0.0
        if min(self.exact, self.estimated) >= _ENOUGH_BYTES and exact / 2 <= self.exact * _MAX_UNSURE:
            factor = self.exact / self.estimated
            self.factor = factor if _MIN_FACTOR <= factor <= _MAX_FACTOR else 1.0


@dataclass(slots=True, kw_only=True)
class Tally:
    """State kept between cycles; of each key the first object, since the window keeps many flows."""

    keys: dict[FlowKey, FlowKey] = field(default_factory=dict)
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    left_over: dict[FlowKey, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """One group's cycle: what was read, and the estimated bytes of that by member id."""

    flows: tuple[Flow, ...]
    estimated: Mapping[str, float]


def count(  # noqa: PLR0913 - one group's cycle, and all are named
    tally: Tally,
    group: str,
    parts: Iterable[AttributedBytes],
    exact: Mapping[str, Iterable[Read]],
    *,
    exact_members: Mapping[str, ObservedMember],
    rack_of: Callable[[int | None], str],
) -> Count:
    """Compute the flows of one group in one cycle, and change the tally.

    `parts` are estimates, `exact` is what clients reported since the last cycle, by member id. The estimates of
    `exact_members`, which are known exactly at present, calibrate and do not count. `rack_of` returns "" where unknown.
    """
    calibration = tally.calibrations.setdefault(group, Calibration())
    factor = calibration.factor
    sums: dict[FlowKey, list[float]] = {}
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
        if member is not None:
            estimated[member.id] = estimated.get(member.id, 0.0) + wire_bytes
    reported = 0.0
    for member_id, reads in exact.items():
        member = exact_members.get(member_id)
        for read in reads:
            reported += read.wire_bytes
            key = _key(group, read.partition[0], member, rack_of(read.broker), "exact")
            _add(sums, key, read.wire_bytes, read.records)
    if reported or shadow:
        calibration.add(reported, shadow, committed=committed)
    return Count(flows=_rounded(sums, tally.left_over, tally.keys), estimated=estimated)


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
    """Round to whole bytes; the remainder counts in the next cycle, so that nothing is lost by rounding."""
    flows = []
    for key, (wire_bytes, records) in sums.items():
        exact = wire_bytes + left_over.pop(key, 0.0)
        whole = int(exact)
        if exact > whole:
            left_over[key] = exact - whole
        flows.append(Flow(key=keys.setdefault(key, key), volume=Volume(wire_bytes=whole, records=round(records))))
    return tuple(flows)
