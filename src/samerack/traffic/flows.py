"""Converts what each group read to flows: those of a cycle, and those of the last seconds.

`count` makes a cycle's: it calibrates estimates, counts exact members by their reports, sums by key, and rounds.

`Window` has those of the last seconds, from whole times between commits. A commit shows what was read since the one
before it. A window of a minute has one or two commits of a group that commits once a minute, by chance, and its figures
would be doubled in turn. So a window ends with the last commit of each key, and what lies between two commits is spread
over that time. A poll at which everything was committed ends such a time too, and so does a change of owners, and for
exact bytes every report. After a change, and where commits fail to come, the window ends now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeVar

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
    """State kept between cycles.

    Attributes:
        keys: of each key the first object, since the window keeps many flows.
        calibrations: by group.
        left_over: bytes that rounding left.
        uncounted: by group, the exact members whose clients count no records.
    """

    keys: dict[FlowKey, FlowKey] = field(default_factory=dict)
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    left_over: dict[FlowKey, float] = field(default_factory=dict)
    uncounted: dict[str, frozenset[str]] = field(default_factory=dict)

    def forget(self, gone: Iterable[str]) -> None:
        """Forget groups that are gone."""
        if not (names := frozenset(gone)):
            return
        self.keys = {key: key for key in self.keys if key.group not in names}
        self.left_over = {key: left for key, left in self.left_over.items() if key.group not in names}
        for name in names:
            self.calibrations.pop(name, None)
            self.uncounted.pop(name, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """One group's cycle: what was read, and by member id what of that is estimated."""

    flows: tuple[Flow, ...]
    estimated: Mapping[str, Volume]


def count(  # noqa: PLR0913 - one group's cycle, and all are named
    tally: Tally,
    group: str,
    parts: Iterable[AttributedBytes],
    exact: Mapping[str, Sequence[Read]],
    *,
    exact_members: Mapping[str, ObservedMember],
    rack_of: Callable[[int | None], str],
) -> Count:
    """Compute the flows of one group in one cycle, and change the tally.

    `parts` are estimates, `exact` is what clients reported since the last cycle, by member id. The estimates of
    `exact_members`, which are known exactly at present, calibrate and do not count, except for the records of those
    whose clients count none. `rack_of` returns "" where unknown.
    """
    before = tally.uncounted.get(group, frozenset())
    shown = {member_id: reads[0].records is None for member_id, reads in exact.items() if reads}
    uncounted = frozenset(one for one in exact_members if shown.get(one, one in before))
    tally.uncounted[group] = uncounted
    calibration = tally.calibrations.setdefault(group, Calibration())
    factor = calibration.factor
    sums: dict[FlowKey, list[float]] = {}
    shadow = 0.0
    committed = False
    estimated: dict[str, list[float]] = {}
    for part in parts:
        member = part.member
        if member is not None and member.id in exact_members:
            shadow += part.wire_bytes
            committed = committed or part.records > 0
            if member.id in uncounted and part.records:
                _add(sums, _key(group, part.partition[0], member, rack_of(part.broker), "exact"), 0.0, part.records)
            continue
        wire_bytes = part.wire_bytes * factor
        key = _key(group, part.partition[0], member, rack_of(part.broker), "estimated")
        _add(sums, key, wire_bytes, part.records)
        if member is not None:
            _add(estimated, member.id, wire_bytes, part.records)
    reported = 0.0
    for member_id, reads in exact.items():
        member = exact_members.get(member_id)
        for read in reads:
            reported += read.wire_bytes
            key = _key(group, read.partition[0], member, rack_of(read.broker), "exact")
            _add(sums, key, read.wire_bytes, read.records or 0)
    if reported or shadow:
        calibration.add(reported, shadow, committed=committed)
    return Count(
        flows=_rounded(sums, tally.left_over, tally.keys),
        estimated={
            member_id: Volume(wire_bytes=round(wire_bytes), records=round(records))
            for member_id, (wire_bytes, records) in estimated.items()
        },
    )


def _key(group: str, topic: str, member: ObservedMember | None, replica_rack: str, method: Method) -> FlowKey:
    rack = member.rack.rack if member is not None else None
    return FlowKey(group=group, topic=topic, client_rack=rack or "", replica_rack=replica_rack, method=method)


_Key = TypeVar("_Key")


def _add(sums: dict[_Key, list[float]], key: _Key, wire_bytes: float, records: int) -> None:
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


_LATE: Final = 1.5
"""A key whose commit is late by this multiple of its longest time between two is not read any more."""
_TOLERANCE: Final = 1e-6
"""Sums of times may differ by this number of seconds."""


@dataclass(slots=True, kw_only=True)
class _Reads:
    """What was read under one key.

    Attributes:
        first: When it was first read.
        begin: When the first of `times` began.
        is_whole: Whether that was a commit, and not only the first poll.
        times: (end, bytes, records) of each time between two commits.
        early: Bytes and records of the first commit, which may be of more than the time since the first poll.
        tail: Bytes since the last of them.
        is_broken: Whether the owners have changed since: maybe nobody reads under this key any more.
    """

    first: float
    begin: float
    is_whole: bool
    times: deque[tuple[float, int, int]] = field(default_factory=deque)
    early: tuple[int, int] = (0, 0)
    tail: int = 0
    is_broken: bool = False

    @property
    def last(self) -> float:
        """The end of the last whole time."""
        return self.times[-1][0] if self.times else self.begin

    def commit(self, at: float, records: int) -> None:
        """End a time between two commits."""
        if at <= self.last and not self.tail and not records:
            return
        self.times.append((at, self.tail, records))
        self.tail, self.is_broken = 0, False
        if not self.is_whole and len(self.times) > 1:
            self.early = self.times[0][1:]
            self._drop()

    def total(self, now: float, seconds: float) -> Volume | None:
        """Return what was read in a window of this length, and drop what was before; None if that is nothing."""
        steady = self._is_steady(now)
        end = self.last if steady else now
        begin = end - min(seconds, now - self.first)
        while len(self.times) > steady and self.times[0][0] <= begin + _TOLERANCE:
            self._drop()
        wire_bytes = records = 0.0
        since = self.begin
        for until, size, count in (*self.times, *(() if steady else ((now, self.tail, 0),))):
            part = min(1.0, (until - begin) / (until - since)) if until > since else 1.0
            wire_bytes += part * size
            records += part * count
            since = until
        if steady and self.begin > max(begin, self.first) + _TOLERANCE:
            earlier = (self.begin - self.first) / (end - self.begin)
            part = (self.begin - begin) / (self.begin - self.first)
            wire_bytes += part * min(self.early[0], earlier * wire_bytes)
            records += part * min(self.early[1], earlier * records)
        volume = Volume(wire_bytes=round(wire_bytes), records=round(records))
        return volume if volume.wire_bytes or volume.records else None

    def _is_steady(self, now: float) -> bool:
        if self.is_broken or not self.is_whole or not self.times:
            return False
        ends = (self.begin, *(time[0] for time in self.times))
        longest = max(end - begin for begin, end in pairwise(ends))
        return now - self.last <= _LATE * longest

    def _drop(self) -> None:
        self.begin, self.is_whole = self.times.popleft()[0], True


class Window:
    """Volumes of the last `seconds` by group and key; times are monotonic seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._begun: float | None = None
        self._now = 0.0
        self._reads: dict[str, dict[FlowKey, _Reads]] = {}
        self._caught_up: dict[str, Collection[str]] = {}

    @property
    def seconds(self) -> float:
        """How much of the window there is so far."""
        return 0.0 if self._begun is None else min(self._seconds, self._now - self._begun)

    def add(self, begin: float, end: float, groups: Mapping[str, Iterable[Flow]], *, changed: Collection[str]) -> None:
        """Add what each group was seen to read from `begin` to `end`; of those `changed`, other members read now."""
        self._begun, self._now = begin if self._begun is None else self._begun, end
        for name in changed:
            for former in self._reads.get(name, {}).values():
                former.commit(begin, 0)
                former.is_broken = True
        for name, flows in groups.items():
            known = self._reads.setdefault(name, {})
            for flow in flows:
                reads = known.get(flow.key)
                if reads is None:
                    whole = flow.key.topic in self._caught_up.get(name, ())
                    reads = known[flow.key] = _Reads(first=begin, begin=begin, is_whole=whole)
                reads.tail += flow.volume.wire_bytes
                if flow.volume.records or flow.key.method == "exact":
                    reads.commit(end, flow.volume.records)

    def caught_up(self, groups: Mapping[str, Collection[str]]) -> None:
        """Record the topics of which each group had committed everything at the last poll."""
        self._caught_up = dict(groups)
        for name, topics in groups.items():
            for key, reads in self._reads.get(name, {}).items():
                if key.topic in topics:
                    reads.commit(self._now, 0)

    def is_whole(self, group: str) -> bool:
        """Whether a whole time between two commits of the group was seen."""
        return any(reads.is_whole and reads.times for reads in self._reads.get(group, {}).values())

    def forget(self, groups: Iterable[str]) -> None:
        """Forget groups that are gone."""
        for name in groups:
            self._reads.pop(name, None)

    def by_group(self) -> dict[str, tuple[Flow, ...]]:
        """Return the volumes by group, in the order of their keys; forget keys under which nobody reads any more."""
        result: dict[str, tuple[Flow, ...]] = {}
        for name, known in self._reads.items():
            found = {key: reads.total(self._now, self._seconds) for key, reads in known.items()}
            # others start anew as well, as nothing is left to commit
            idle = self._caught_up.get(name, ())
            self._reads[name] = {
                key: reads
                for key, reads in known.items()
                if reads.times or reads.tail or not (reads.is_broken or key.topic in idle)
            }
            if flows := tuple(Flow(key=key, volume=volume) for key, volume in sorted(found.items()) if volume):
                result[name] = flows
        return result
