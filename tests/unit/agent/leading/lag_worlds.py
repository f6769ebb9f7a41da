"""Worlds in which members may be too slow: a group with its production and its members' strength, by a seed.

The group is read as a fluid: each member reads what waits in its partitions, in proportion, as fast as it can. What the
agent sees comes from the real parts: paces at commits, the lag guard, plans, the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import Final

import numpy as np

from samerack.agent.policy import Action, GroupCondition, PolicyState, Reason, decide, fresh
from samerack.agent.policy.lag_guard import LagGuard
from samerack.assignors.problem import NOBODY, BoolArray, FloatArray, Int32Array
from samerack.cluster.racks import MemberRack
from samerack.cluster.view import SettledCluster, SettledPartition
from samerack.common.weights import FULL_LOAD, GroupWeights, loads_of, weights_of_rates
from samerack.planning.planner import Plan, make_plan
from samerack.planning.problem import mode_of, problem_of
from samerack.protocol.values import from_pairs
from samerack.settings.leading import LeadingSettings
from samerack.settings.policy import LagSettings, PolicyRules
from samerack.traffic.board import Published
from samerack.traffic.lag import Paces
from samerack.traffic.snapshot import GroupTraffic, ObservedMember, PartitionTraffic, TrafficSnapshot

DAY: Final = 86_400.0
POLL: Final = 15.0
LIMIT: Final = 120.0
PARTITIONS: Final = 96
MEMBERS: Final = 12
RACKS: Final = "aaaaaabbbccc"
_NAMES: Final = tuple(f"m{number:02}" for number in range(MEMBERS))
_BYTES: Final = 1e6
"""Bytes per second of a rate of 1."""
_PAUSE: Final = 3.0
_STOP: Final = 3600.0
_ROOM: Final = 0.92
"""Whole partitions fit into members that have no more than this part of their capacity on average."""


@dataclass(frozen=True, kw_only=True)
class World:
    """What happens in one day.

    Attributes:
        rates: [P] bytes per second in the long run; a member in good order reads 1.
        replicas: the racks of each partition's replicas.
        slow: the member at half speed, from when, until when.
        wave: whether traffic rises and falls by a half in the day.
        stopped: when all members stop for an hour.
        commit_every: seconds between two commits of a member.
    """

    rates: tuple[float, ...]
    replicas: tuple[tuple[int, ...], ...]
    slow: tuple[int, float, float] | None
    wave: bool
    stopped: float | None
    commit_every: float

    @property
    def is_even(self) -> bool:
        """Whether no member ever has more than it can read for long."""
        return self.slow is None and max(self.rates) == min(self.rates)


def drawn(seed: int) -> World:
    """Return the world of a seed: 12 members, 6, 3 and 3 over three racks, with 80 % of what they can read at most."""
    dice = Random(seed)  # noqa: S311 - reproducible worlds, not secrets
    wave, hot = dice.random() < 0.5, dice.random() < 0.4
    rates = [1.0] * PARTITIONS
    if hot:
        rates[dice.randrange(PARTITIONS)] = dice.uniform(2.0, 3.5)
    whole = 0.8 * MEMBERS / (1.5 if wave else 1.0)
    begin = dice.uniform(0.0, DAY / 2)
    copies = dice.choice([1, 2, 3])
    return World(
        rates=tuple(rate * whole / sum(rates) for rate in rates),
        replicas=tuple(tuple((one + more) % 3 for more in range(copies)) for one in range(PARTITIONS)),
        slow=(dice.randrange(MEMBERS), begin, begin + dice.uniform(3600.0, DAY)) if dice.random() < 0.6 else None,
        wave=wave,
        stopped=dice.uniform(0.0, DAY) if dice.random() < 0.3 else None,
        commit_every=dice.choice([1.0, 5.0, 30.0, 60.0, 300.0, 600.0]),
    )


@dataclass(kw_only=True)
class DayResult:
    """What was seen in a day, in seconds and shares of them.

    Attributes:
        allowed: seconds in which the members together could keep up with what came.
        late: of these, those in which some partition was further behind than the limit.
        across: what is read across racks of what is written.
        least: what would be if the strength of all members, and the highest load of the day, were always known.
        read: what is written.
        rebalances: when the agent triggered one, and why.
        over_budget: whether another was refused, as the day's budget was spent.
    """

    allowed: float = 0.0
    late: float = 0.0
    across: float = 0.0
    least: float = 0.0
    read: float = 0.0
    rebalances: list[tuple[float, str]] = field(default_factory=list)
    over_budget: bool = False


class _Day:
    """A day of one world."""

    def __init__(self, world: World, *, limit: float) -> None:
        self.world = world
        self.now = 0.0
        self.rates: FloatArray = np.array(world.rates)
        self.near = np.array([["abc".index(rack) in one for rack in RACKS] for one in world.replicas])
        self._cluster = SettledCluster(
            brokers=dict(enumerate("abc")),
            topics={"t": tuple(SettledPartition(leader=one[0], replicas=one) for one in world.replicas)},
        )
        self._weights = weights_of_rates({("t", number): rate * _BYTES for number, rate in enumerate(world.rates)})
        self._guard = LagGuard(
            LagSettings(max_seconds=limit), weigh=lambda _: self._weights, leads=lambda _: True, clock=lambda: self.now
        )
        self._paces = Paces()
        self._policy: PolicyState = fresh(PolicyRules(), 0.0)
        self._members_of: tuple[Int32Array, tuple[ObservedMember, ...]] | None = None
        self._best: dict[bool, BoolArray] = {}
        self.owner: Int32Array = np.full(PARTITIONS, NOBODY, np.int32)
        self.owner = self._planned(None).final
        self._planned_for: tuple[object, object] = (None, None)
        self._times: FloatArray = np.arange(-DAY, DAY + POLL, 60.0)
        self._produced: FloatArray = self._times - (
            0.5 * DAY / (2 * np.pi) * np.cos(2 * np.pi * self._times / DAY) if world.wave else 0.0
        )
        """What was produced until these times, in seconds of the long-run rates."""
        self._read: FloatArray = np.full(PARTITIONS, self._end())
        self._committed = self._read.copy()
        self._commit_at: FloatArray = np.arange(MEMBERS) / MEMBERS * world.commit_every

    def comes(self) -> FloatArray:
        """Return [P] what is written now."""
        wave = 1.0 + (0.5 * float(np.sin(2 * np.pi * self.now / DAY)) if self.world.wave else 0.0)
        return self.rates * wave

    def strength(self) -> FloatArray:
        """Return [M] what members can read now."""
        strong, world = np.ones(MEMBERS), self.world
        if world.slow is not None and world.slow[1] <= self.now < world.slow[2]:
            strong[world.slow[0]] = 0.5
        if world.stopped is not None and world.stopped <= self.now < world.stopped + _STOP:
            strong[:] = 0.0
        return strong

    def lag(self) -> float:
        """Return the lag in seconds of the partition that is furthest behind."""
        return float(self._ages(self._read).max())

    def pass_(self, seconds: float) -> None:
        """Let members read what waits, and commit."""
        self.now += seconds
        waits = (self._end() - self._read) * self.rates
        by_member = np.bincount(self.owner, weights=waits, minlength=MEMBERS)
        part = np.minimum(1.0, self.strength() * seconds / np.maximum(by_member, 1e-12))
        self._read = self._read + (self._end() - self._read) * part[self.owner]
        due, every = self._commit_at <= self.now, self.world.commit_every
        self._committed[due[self.owner]] = self._read[due[self.owner]]
        self._commit_at[due] = self.now + every - (self.now - self._commit_at[due]) % every

    def measure(self) -> None:
        """Show the group to the guard as the measuring cycle does."""
        offsets, last = np.rint(self._committed * 1000), round(self._end() * 1000)
        rows = [
            PartitionTraffic(
                partition=("t", number),
                member=_NAMES[owner],
                serving_rack=None,
                bytes_per_second=None,
                written_per_second=rate * _BYTES,
                lag_records=max(0, last - int(offset)),
                lag_seconds=round(age / POLL) * POLL if offset < last else 0.0,
                committed=int(offset),
            )
            for number, (owner, rate, offset, age) in enumerate(
                zip(
                    self.owner.tolist(),
                    self.comes().tolist(),
                    offsets.tolist(),
                    self._ages(self._committed).tolist(),
                    strict=True,
                )
            )
        ]
        group = GroupTraffic(
            group="g",
            kind="classic",
            state="Stable",
            members=self._members(),
            partitions=rows,
            paces=self._paces.measured("g", rows, now=self.now, poll_seconds=POLL),
        )
        self._guard.take(Published(snapshot=TrafficSnapshot(cycle=1, groups=(group,)), totals=MappingProxyType({})))

    def lead(self, seen: DayResult) -> None:
        """Decide, and rebalance where that is decided."""
        weights = self._guard.weights("g")
        if self._planned_for[0] is not weights or self._planned_for[1] is not self.owner:
            self._planned_for = weights, self.owner
            self._plan, learned = self._planned(weights), weights is not None and bool(weights.capacities)
            self._condition = GroupCondition(
                present=self._plan.before,
                possible=self._plan.after,
                partitions_changed=False,
                withheld=0,
                rounds=0,
                changes=None,
                pause_seconds=_PAUSE,
                greatest_loads=self._plan.greatest_loads if learned else None,
            )
        condition = replace(self._condition, growing=self._guard.growing("g"))
        self._policy, decision = decide(self._policy, condition, self.now, self.now, PolicyRules())
        seen.over_budget |= decision.reason is Reason.OUT_OF_BUDGET
        if decision.action is Action.REBALANCE:
            seen.rebalances.append((self.now, decision.reason.value))
            moved = self._plan.final != self.owner
            self._committed[moved] = self._read[moved]
            self.owner = self._plan.final

    def _end(self) -> float:
        return float(np.interp(self.now, self._times, self._produced))

    def _ages(self, position: FloatArray) -> FloatArray:
        ages: FloatArray = np.maximum(0.0, self.now - np.interp(position, self._produced, self._times))
        return ages

    def least(self) -> BoolArray:
        """Return [P] whether each partition is read near in the plan made in full knowledge of what members can read.

        It is the plan without a guard as long as each of its members can read its load at the day's peak.
        """
        world = self.world
        slow = world.slow is not None and world.slow[1] <= self.now < world.slow[2]
        if slow not in self._best:
            strong = np.ones(MEMBERS)
            if world.slow is not None and slow:
                strong[world.slow[0]] = 0.5
            peak = self.rates * (1.5 if world.wave else 1.0)
            owner = self._planned(None).final
            if (np.bincount(owner, weights=peak, minlength=MEMBERS) > strong).any():
                loads = loads_of({("t", number): min(rate, FULL_LOAD) * _BYTES for number, rate in enumerate(peak)})
                capacities = {name: strength * _BYTES for name, strength in zip(_NAMES, strong.tolist(), strict=True)}
                owner = self._planned(GroupWeights(self._weights or {}, loads, capacities)).final
            self._best[slow] = self.near[np.arange(PARTITIONS), owner]
        return self._best[slow]

    def _members(self) -> tuple[ObservedMember, ...]:
        if self._members_of is None or self._members_of[0] is not self.owner:
            self._members_of = self.owner, self._members_now()
        return self._members_of[1]

    def _members_now(self) -> tuple[ObservedMember, ...]:
        return tuple(
            ObservedMember(
                id=name,
                instance_id=None,
                rack=MemberRack(rack=rack, source="subscription", fetches_with_rack=True),
                topics=frozenset({"t"}),
                owned=from_pairs(("t", int(number)) for number in np.flatnonzero(self.owner == index)),
                client_host="",
                sessions=True,
            )
            for index, (name, rack) in enumerate(zip(_NAMES, RACKS, strict=True))
        )

    def _planned(self, weights: GroupWeights | None) -> Plan:
        mode = mode_of("cooperative-sticky", LeadingSettings(), rack_aware_fetch=True, weights=weights)
        return make_plan(problem_of(self._members(), self._cluster, mode, weights=weights), mode)


def live_through(world: World, *, limit: float = LIMIT) -> DayResult:
    """Live through a day of a world with the guard at this limit; 0: without it."""
    day, seen = _Day(world, limit=limit), DayResult()
    waits, each = 0.0, np.arange(PARTITIONS)
    while day.now < DAY:
        day.pass_(POLL)
        day.measure()
        day.lead(seen)
        comes = day.comes()
        waits = max(0.0, waits + (float(comes.sum()) - _ROOM * float(day.strength().sum())) * POLL)
        seen.read += float(comes.sum()) * POLL
        seen.across += float(comes[~day.near[each, day.owner]].sum()) * POLL
        seen.least += float(comes[~day.least()].sum()) * POLL
        if not waits:
            seen.allowed += POLL
            seen.late += POLL * (day.lag() > LIMIT)
    return seen
