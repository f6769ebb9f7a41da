"""The lag guard: learns what members can read, and has a group planned by that while its lag grows where it need not.

What a member reads while it is behind is its capacity. Of one that keeps up only a lower bound is known, what it reads;
it is taken to have a quarter more than is usual, until that turns out wrong. When lag is beyond the group's limit and
grows, plans go by these capacities (`GroupWeights.capacities`): near as before, but no member is filled beyond them.
They stay the same until the lag of other members grows, and are given up when all have kept up for long enough; who
falls behind again soon after that keeps them for a day. Pure but for a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, inf, isnan, nan
from statistics import median
from typing import Final, TypeAlias

from samerack.cluster.group import member_key
from samerack.common.weights import FULL_LOAD, GroupWeights, loads_of
from samerack.settings.policy import LagRules, LagSettings
from samerack.traffic.board import Published
from samerack.traffic.collect import Partition
from samerack.traffic.lag import behind_seconds
from samerack.traffic.snapshot import GroupTraffic, Pace, PartitionTraffic

_MORE: Final = 1.25
_LITTLE_MORE: Final = 1.1
"""A member that was never behind is taken to read the first multiple of what members usually keep up with, or, if
that is more, the second of what it has kept up with itself."""
_KEPT_SECONDS: Final = 86_400.0
"""After this time what a member has kept up with counts for a third."""
_LIKE: Final = 0.1
"""Capacities that differ by less than this part from those in use are no reason to plan anew."""
_AGAIN_SECONDS: Final = 300.0
"""... until lag has grown for this time with them: the plan may have been late, and loads have changed."""
_RELAPSE: Final = 6.0
"""Who falls behind within this multiple of `lag.keep_seconds` after the guard has given up needs it for longer ..."""
_LONGER: Final = 24.0
"""... for this multiple of `lag.keep_seconds`."""
_CATCH_UP_SECONDS: Final = 600.0
"""What waits is to be read within this time, as far as there is room."""
_CATCHING_UP_SECONDS: Final = 3600.0
_LONGER_THAN_USUAL: Final = 2.0
"""A member that needs longer than this time to catch up, and this multiple of what members usually need, is too slow as
well, unless the group was planned anew within this time: members that got what waits need time for it."""
_Rates: TypeAlias = Mapping[Partition, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingLag:
    """Lag that is beyond a group's limit and grows.

    Attributes:
        seconds: the largest, right after a commit.
        growth: how fast it grows, in seconds per second; 0 where a member catches up, but needs too long.
        members: those who read too slowly, by `member_key`.
    """

    seconds: float
    growth: float
    members: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """What is known of one group; times are monotonic seconds.

    Attributes:
        seen: when it was last measured.
        by_records: whether loads are of records, as long as members are balanced by them, or of bytes.
        kept: the largest load that each member has kept up with lately, by `member_key`.
        keeping: those who keep up with what they own, with a hash of that.
        learned: what each member read while it was behind, the last time.
        strongest: the largest of these, also when all have caught up; 0 if none was ever behind.
        growing: lag beyond the limit.
        weights: loads and capacities that plans go by; None while the guard rests.
        combined: weights of partitions, and these with loads and capacities.
        planned_at: when these were made.
        quiet_since: since when no lag is near the limit; None while some is.
        gave_up: when the guard last came to rest.
        relapsed: whether it began again soon after that.
    """

    seen: float
    by_records: bool = False
    kept: dict[str, float] = field(default_factory=dict)
    keeping: dict[str, int] = field(default_factory=dict)
    learned: dict[str, float] = field(default_factory=dict)
    strongest: float = 0.0
    growing: GrowingLag | None = None
    weights: GroupWeights | None = None
    combined: tuple[GroupWeights | None, GroupWeights | None] = (None, None)
    planned_at: float = float("-inf")
    quiet_since: float | None = None
    gave_up: float = float("-inf")
    relapsed: bool = False


class LagGuard:
    """The guard of all groups that the agent may lead; the measuring cycle writes it, leaders read it."""

    def __init__(
        self,
        settings: LagSettings,
        *,
        weigh: Callable[[str], GroupWeights | None],
        leads: Callable[[str], bool],
        clock: Callable[[], float],
    ) -> None:
        """Start without knowledge.

        `weigh` returns the weights of a group's partitions, None while they are not known; `leads` whether the agent
        may lead a group; `clock` monotonic seconds.
        """
        self._settings = settings
        self._weigh = weigh
        self._leads = leads
        self._clock = clock
        self._groups: dict[str, _Group] = {}

    def weights(self, group: str) -> GroupWeights | None:
        """Return what to plan a group by; the same object while it does not change."""
        base, known = self._weigh(group), self._groups.get(group)
        if known is None or (guarded := known.weights) is None:
            return base
        if known.combined[0] is not base or known.combined[1] is None:
            known.combined = (base, GroupWeights(base or {}, guarded.loads, guarded.capacities))
        return known.combined[1]

    def growing(self, group: str) -> GrowingLag | None:
        """Return the lag of a group that is beyond its limit and grows."""
        known = self._groups.get(group)
        return None if known is None else known.growing

    def capacity(self, group: str) -> float | None:
        """Return what a member of the group can read, in bytes per second; None if that is not known.

        It is the largest that members read when they were behind last. What they keep up with says too little: they
        might read more, and while none was behind, or only a weak one, nothing is known.
        """
        known = self._groups.get(group)
        if known is None or known.by_records or known.strongest < max(known.kept.values(), default=0.0):
            return None
        return known.strongest or None

    def take(self, published: Published) -> None:
        """Take what was measured; `published` is a snapshot of all groups.

        While nothing is measured no lag is known to grow, and plans stay as they are.
        """
        now, groups = self._clock(), published.snapshot.groups
        if not published.snapshot.cycle:
            for known in self._groups.values():
                known.growing = None
            return
        for gone in self._groups.keys() - {group.group for group in groups}:
            del self._groups[gone]
        for group in groups:
            if group.kind == "classic" and self._leads(group.group):
                self._take(self._groups.setdefault(group.group, _Group(seen=now)), group, now)

    def _take(self, known: _Group, group: GroupTraffic, now: float) -> None:
        by_records = bool(group.record_rates)
        rules, ids, owned = self._settings.of(group.group), _ids(group), group.owned_by_member()
        if known.by_records != by_records:
            known.by_records, known.weights = by_records, None
            known.kept, known.learned, known.strongest = {}, {}, 0.0
        sums = {key: _load(owned[member], group.record_rates) for key, member in ids.items()}
        loads = {key: load for key, load in sums.items() if not isnan(load)}
        slow = {key: pace for key, member in ids.items() if (pace := group.paces.get(member)) is not None}
        fades, limit = exp((known.seen - now) / _KEPT_SECONDS), behind_seconds(now - known.seen)
        known.seen = now
        # one that is not in `slow` may only not be judged yet: after a rebalance, or a poll without an answer
        owns = {key: hash(tuple(one.partition for one in owned[ids[key]])) for key in loads.keys() - slow.keys()}
        known.keeping = {
            key: what
            for key, what in owns.items()
            if _keeps_up(owned[ids[key]], inf if known.keeping.get(key) == what else limit)  # commits may be rare
        }
        known.kept = {
            key: max(known.kept.get(key, 0.0) * fades, load if key in known.keeping else 0.0)
            for key, load in loads.items()
        }
        known.learned = {key: value for key, value in known.learned.items() if key in loads}
        for key, pace in slow.items():
            if pace.share is not None and key in loads:
                reads = pace.share * loads[key]  # while it catches up, at least: some of its partitions may have
                known.learned[key] = reads if pace.share < 1.0 else max(reads, known.learned.get(key, 0.0))
        long = inf
        if slow and now - known.planned_at >= _CATCHING_UP_SECONDS:  # members that got what waits need time for it
            usual = median(_to_catch_up(slow[key]) if key in slow else 0.0 for key in ids)
            long = max(_CATCHING_UP_SECONDS, _LONGER_THAN_USUAL * usual)
        late = {key: pace for key, pace in slow.items() if _is_late(pace, rules, long=long)}
        known.learned |= {key: (pace.share or 1.0) * loads[key] for key, pace in late.items() if key in loads}
        known.strongest = max(known.learned.values(), default=known.strongest)
        if len(loads) < len(sums):  # without all loads nothing can be planned
            late = {}
        known.growing = _growing(late) if late else None
        if late:
            rates = group.record_rates if by_records else group.long_run_rates
            waiting = {one.partition: pace.lag_seconds for key, pace in slow.items() for one in owned[ids[key]]}
            _plan_anew(known, rates, waiting, keep_seconds=rules.keep_seconds, now=now)
        if any(pace.lag_seconds > rules.max_seconds / 2 for pace in slow.values()):
            known.quiet_since = None
        elif known.quiet_since is None:
            known.quiet_since = now
        keep = rules.keep_seconds * (_LONGER if known.relapsed else 1.0)
        if known.weights is not None and known.quiet_since is not None and now - known.quiet_since >= keep:
            known.weights, known.gave_up = None, now
            known.learned.clear()


def _is_late(pace: Pace, rules: LagRules, *, long: float) -> bool:
    """Return whether a member's lag is beyond the limit and grows, or needs longer than `long` to be read."""
    if pace.share is None or not 0 < rules.max_seconds < pace.lag_seconds:
        return False
    gains = pace.share - 1.0
    left = pace.lag_seconds - gains * pace.ago_seconds
    return (pace.grows and gains < 0) or (left > rules.max_seconds and _to_catch_up(pace) > long)


def _to_catch_up(pace: Pace) -> float:
    """Return the seconds in which a member that is behind will have caught up; infinite if that is not known."""
    gains = 0.0 if pace.share is None else pace.share - 1.0
    return pace.lag_seconds / gains - pace.ago_seconds if gains > 0 else inf


def _growing(late: Mapping[str, Pace]) -> GrowingLag:
    return GrowingLag(
        seconds=max(pace.lag_seconds for pace in late.values()),
        growth=max(0.0, *(1.0 - (pace.share or 1.0) for pace in late.values())),
        members=tuple(sorted(late)),
    )


def _plan_anew(
    known: _Group, rates: _Rates, waiting: Mapping[Partition, float], *, keep_seconds: float, now: float
) -> None:
    """Have the group planned by what is known of its members now, unless it is already."""
    usual = _MORE * median(known.kept.values())
    capacities = {
        key: capacity
        for key, kept in known.kept.items()
        if (capacity := known.learned.get(key) or max(usual, _LITTLE_MORE * kept)) > 0
    }
    if known.weights is None:
        known.relapsed = now - known.gave_up < _RELAPSE * keep_seconds
    elif now - known.planned_at < _AGAIN_SECONDS and _alike(capacities, known.weights.capacities):
        return
    known.planned_at = now
    known.weights = GroupWeights({}, loads_of(_to_read(rates, waiting, capacities.values())), capacities)
    known.combined = (None, None)


def _to_read(
    rates: _Rates, waiting: Mapping[Partition, float], capacities: Collection[float]
) -> dict[Partition, float]:
    """Return what is to be read of each partition, in bytes per second: what comes, and what waits as far as it fits.

    What no member can read, however strong, is cut: it would hide what can be done for the others.
    """
    waits = {partition: rates[partition] * seconds / _CATCH_UP_SECONDS for partition, seconds in waiting.items()}
    room, more = FULL_LOAD * sum(capacities) - sum(rates.values()), sum(waits.values())
    part = min(1.0, max(0.0, room / 2) / more) if more else 0.0
    most = FULL_LOAD * max(capacities)
    return {partition: min(rate + part * waits.get(partition, 0.0), most) for partition, rate in rates.items()}


def _ids(group: GroupTraffic) -> dict[str, str]:
    """Return the ids of members by what names them in all generations."""
    return {member_key(member.id, member.instance_id): member.id for member in group.members}


def _load(owned: Iterable[PartitionTraffic], record_rates: _Rates) -> float:
    """Return the load of a member, of records if given, else of bytes; nan if it, or a commit, is not known.

    Where there is nothing to read, no commit is needed.
    """
    load = 0.0
    for one in owned:
        rate = record_rates.get(one.partition) if record_rates else one.long_run_per_second
        load += nan if rate is None or (one.committed is None and one.lag_records != 0) else rate
    return load


def _keeps_up(owned: Iterable[PartitionTraffic], limit: float) -> bool:
    """Return whether the lag of all partitions is known to be within a limit, in seconds."""
    return all(one.lag_seconds is not None and one.lag_seconds <= limit for one in owned)


def _alike(capacities: Mapping[str, float], used: Mapping[str, float]) -> bool:
    return capacities.keys() == used.keys() and all(
        abs(capacity - used[key]) <= _LIKE * used[key] for key, capacity in capacities.items()
    )
