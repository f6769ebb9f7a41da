"""Worlds in which members may be too slow: a group with its production and its members' strength, by a seed.

The group is read as a fluid: each member reads what waits in its partitions, in proportion, as fast as it can. What the
agent sees comes from the real parts: paces at commits, the lag guard, plans, the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Final

import numpy as np

from samerack.agent.policy import Action, GroupCondition, Reason, decide, fresh
from samerack.agent.policy.lag_guard import FULL_LOAD, LagGuard
from samerack.assignors.evaluate import evaluate
from samerack.cluster.racks import MemberRack
from samerack.cluster.view import ClusterView, SettledCluster, SettledPartition
from samerack.planning.planner import Plan, make_plan
from samerack.planning.problem import mode_of, problem_of
from samerack.protocol.values import from_pairs
from samerack.settings.leading import LeadingSettings
from samerack.settings.policy import LagSettings, PolicyRules
from samerack.traffic.board import Published
from samerack.traffic.pace import Paces
from samerack.traffic.rates import weights_of_rates
from samerack.traffic.snapshot import GroupTraffic, ObservedMember, PartitionTraffic, TrafficSnapshot

DAY: Final = 86_400.0
POLL: Final = 15.0
LIMIT: Final = 120.0
PARTITIONS: Final = 96
MEMBERS: Final = 12
RACKS: Final = "aaaaaabbbccc"
_PAUSE: Final = 3.0
_MODE: Final = mode_of("cooperative-sticky", LeadingSettings(), rack_aware_fetch=True)


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
class Seen:
    """What was seen in a day, in seconds and shares of them.

    Attributes:
        allowed: seconds in which the members together could keep up with what came.
        late: of these, those in which some partition was further behind than the limit.
        across: bytes read across racks.
        rebalances: when the agent triggered one, and why.
    """

    allowed: float = 0.0
    late: float = 0.0
    across: float = 0.0
    read: float = 0.0
    rebalances: list[tuple[float, str]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)


class _Day:
    """A day of one world."""

    def __init__(self, world: World, *, limit: float) -> None:
        self.world = world
        self.now = 0.0
        self.rates = np.array(world.rates)
        names = [f"m{number:02}" for number in range(MEMBERS)]
        self.cluster = SettledCluster(
            brokers=dict(enumerate("abc")),
            topics={"t": tuple(SettledPartition(leader=one[0], replicas=one) for one in world.replicas)},
        )
        self.weights = weights_of_rates({("t", number): rate * 1e6 for number, rate in enumerate(world.rates)})
        self.guard = LagGuard(
            LagSettings(max_seconds=limit), weigh=lambda _: self.weights, leads=lambda _: True, clock=lambda: self.now
        )
        self.paces = Paces()
        self.members = names
        self.owner = np.full(PARTITIONS, -1)
        self.owner = self._plan()[0].final
        steps = np.arange(-DAY, DAY + POLL, 60.0)
        self._times, self._produced = steps, self._integral(steps)
        self.position = np.full(PARTITIONS, self.produced(0.0))
        self.committed = self.position.copy()
        self.commit_at = np.arange(PARTITIONS) / PARTITIONS * world.commit_every
        self.policy = fresh(PolicyRules(), 0.0)
        self.known: tuple[object, object] | None = None
        self.condition: GroupCondition | None = None
        self.plan: Plan | None = None

    def _integral(self, times: np.ndarray) -> np.ndarray:
        """What was produced until these times, in seconds of the long-run rate."""
        return times - (0.5 * DAY / (2 * np.pi) * np.cos(2 * np.pi * times / DAY) if self.world.wave else 0.0)

    def produced(self, at: float) -> float:
        return float(np.interp(at, self._times, self._produced))

    def wave(self) -> float:
        return 1.0 + (0.5 * float(np.sin(2 * np.pi * self.now / DAY)) if self.world.wave else 0.0)

    def capacity(self) -> np.ndarray:
        strong, world = np.ones(MEMBERS), self.world
        if world.slow is not None and world.slow[1] <= self.now < world.slow[2]:
            strong[world.slow[0]] = 0.5
        if world.stopped is not None and world.stopped <= self.now < world.stopped + 3600.0:
            strong[:] = 0.0
        return strong

    def ages(self, position: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, self.now - np.interp(position, self._produced, self._times))

    def read(self, seconds: float) -> None:
        """Let members read what waits, and commit."""
        self.now += seconds
        end = self.produced(self.now)
        waits = (end - self.position) * self.rates
        by_member = np.bincount(self.owner, weights=waits, minlength=MEMBERS)
        part = np.minimum(1.0, self.capacity() * seconds / np.maximum(by_member, 1e-12))
        self.position += (end - self.position) * part[self.owner]
        due = self.commit_at <= self.now
        self.committed[due] = self.position[due]
        self.commit_at[due] = (
            self.now + self.world.commit_every - (self.now - self.commit_at[due]) % self.world.commit_every
        )

    def measure(self) -> None:
        """Show the group to the guard as the measuring cycle does."""
        end, wave = self.produced(self.now), self.wave()
        ages = np.round(self.ages(self.committed) / POLL) * POLL
        offsets, rates = np.rint(self.committed * 1000).astype(int), self.rates * wave * 1e6
        last = round(end * 1000)
        rows = [
            PartitionTraffic(
                partition=("t", number),
                member=self.members[owner],
                serving_broker=None,
                serving_rack=None,
                bytes_per_second=None,
                written_per_second=rate,
                lag_records=max(0, last - offset),
                lag_seconds=age if offset < last else 0.0,
                committed=offset,
            )
            for number, (owner, rate, offset, age) in enumerate(
                zip(self.owner.tolist(), rates.tolist(), offsets.tolist(), ages.tolist(), strict=True)
            )
        ]
        group = GroupTraffic(
            group="g",
            kind="classic",
            state="Stable",
            members=self._observed(),
            partitions=rows,
            paces=self.paces.measured("g", rows, now=self.now, poll_seconds=POLL),
        )
        self.guard.take(Published(snapshot=TrafficSnapshot(groups=(group,)), totals=MappingProxyType({})))

    def _observed(self) -> tuple[ObservedMember, ...]:
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
            for index, (name, rack) in enumerate(zip(self.members, RACKS, strict=True))
        )

    def _plan(self) -> tuple[Plan, bool]:
        weights = self.guard.weights("g")
        learned = weights is not None and bool(weights.capacities)
        mode = _MODE
        if learned:
            from dataclasses import replace

            mode = replace(_MODE, options=replace(_MODE.options, full_load=FULL_LOAD))
        return make_plan(problem_of(self._observed(), self.cluster, mode, weights=weights), mode), learned

    def lead(self, seen: Seen) -> None:
        """Decide, and rebalance where that is decided."""
        growing, weights = self.guard.growing("g"), self.guard.weights("g")
        if self.known is None or self.known[0] is not weights or self.known[1] is not self.owner:
            self.plan, learned = self._plan()
            self.known = (weights, self.owner)
            self.condition = GroupCondition(
                present=self.plan.before,
                possible=self.plan.after,
                partitions_changed=False,
                withheld=0,
                rounds=0,
                changes=None,
                pause_seconds=_PAUSE,
                greatest_loads=self.plan.greatest_loads if learned else None,
            )
        from dataclasses import replace

        assert self.plan is not None and self.condition is not None
        condition = replace(self.condition, growing=growing)
        self.policy, decision = decide(self.policy, condition, self.now, self.now, PolicyRules())
        if decision.action is Action.REBALANCE:
            seen.rebalances.append((self.now, decision.reason.value))
            moved = self.plan.final != self.owner
            self.commit_at[moved] = self.now
            self.committed[moved] = self.position[moved]
            self.owner = self.plan.final
        elif decision.action is Action.SUPPRESS:
            seen.refused.add(decision.reason.value)


def live_through(world: World, *, limit: float = LIMIT, seconds: float = DAY) -> Seen:
    """Live through a day of a world with the guard at this limit; 0: without it."""
    day, seen = _Day(world, limit=limit), Seen()
    racks = np.array([sorted(set(one)) for one in world.replicas], dtype=object)
    near = np.array([["abc".index(rack) in one for rack in RACKS] for one in world.replicas])
    del racks
    waits = 0.0
    while day.now < seconds:
        day.read(POLL)
        day.measure()
        day.lead(seen)
        comes, reads = float(day.rates.sum()) * day.wave(), float(day.capacity().sum())
        waits = max(0.0, waits + (comes - reads * 0.92) * POLL)
        here = day.rates * day.wave() * POLL
        seen.read += float(here.sum())
        seen.across += float(here[~near[np.arange(PARTITIONS), day.owner]].sum())
        if not waits:
            seen.allowed += POLL
            seen.late += POLL * bool((day.ages(day.position) > LIMIT).any())
    return seen
