"""How a group's members and partitions are spread over racks, and what every balanced plan reads across for it.

A balanced plan gives each member its fair share. A rack whose members may have more than is near them reads the rest
from other racks, whatever the assignor is. Both figures are costs of the optimal assignor's plans, for the group as it
is and with its members moved: nothing is estimated from counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from samerack.assignors.build import with_racks
from samerack.assignors.consumer.registry import Options
from samerack.assignors.evaluate import Rates, evaluate, share_of_owners
from samerack.assignors.problem import NOBODY, AssignmentError, BoolArray, Int32Array, Int64Array, Problem
from samerack.cluster.view import ClusterView, SettledCluster
from samerack.planning.deadline import assign_aside

_OPTIONS = Options(spread=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RackLoad:
    """One rack of brokers or members.

    Attributes:
        even_members: how many it would have if members were spread evenly over the racks of brokers.
        near_partitions: partitions of the group that a member in it can read from it: those with a replica there, or
            with their leader where members read leaders only.
        leaders: partitions whose leader is in it.
        near_bytes_per_second: what the group reads of `near_partitions`; None if not measured.
    """

    rack: str
    members: int
    even_members: int
    near_partitions: int
    leaders: int
    near_bytes_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RackSpread:
    """How even a group is over racks, and the least that balanced plans read across them.

    Attributes:
        partitions: partitions that the group reads.
        across: those that are read across racks in the best balanced plan.
        share: their share of what is read.
        across_if_even: the same if members were spread evenly over the racks of brokers.
        share_if_even: their share of what is read.
    """

    racks: tuple[RackLoad, ...]
    partitions: int
    across: int
    share: float
    across_if_even: int
    share_if_even: float

    @property
    def too_many(self) -> tuple[str, ...]:
        """The racks that would have fewer members."""
        return tuple(rack.rack for rack in self.racks if rack.members > rack.even_members)

    @property
    def too_few(self) -> tuple[str, ...]:
        """The racks that would have more members."""
        return tuple(rack.rack for rack in self.racks if rack.members < rack.even_members)


def rack_spread(
    problem: Problem, cluster: ClusterView | SettledCluster, rates: Rates | None = None
) -> RackSpread | None:
    """Return how a group is spread over racks.

    Args:
        problem: the group.
        cluster: the brokers' racks, and the replicas of the group's topics.
        rates: measured bytes per second; shares are of these as `share_of_owners` has it.

    Returns:
        The spread; None where the rack of a member, or of a broker with a replica, is not known, and where the group
        reads nothing.

    Complexity: two plans of `optimal`, one if members are spread evenly already.
    """
    read = np.logical_or.reduce(problem.subscriptions, axis=0)[problem.topic_of]
    if not read.any() or (problem.member_rack == NOBODY).any() or not racks_known(problem, cluster):
        return None
    even = evenly_spread(problem, broker_racks(cluster))
    try:
        now = assign_aside("optimal", problem, _OPTIONS)
        then = now if np.array_equal(even.member_rack, problem.member_rack) else assign_aside("optimal", even, _OPTIONS)
    except AssignmentError:
        return None
    share, share_if_even = share_of_owners(problem, now, rates), share_of_owners(even, then, rates)
    if share is None or share_if_even is None:
        return None  # no partition has a leader
    cost = evaluate(problem, now)
    return RackSpread(
        racks=_loads(even, problem.member_rack, read, rates),
        partitions=cost.known,
        across=cost.known_cross_rack,
        share=share,
        across_if_even=evaluate(even, then).known_cross_rack,
        share_if_even=share_if_even,
    )


def broker_racks(cluster: ClusterView | SettledCluster) -> tuple[str, ...]:
    """Return the racks of the brokers, sorted by name."""
    return tuple(sorted({rack for rack in cluster.brokers.values() if isinstance(rack, str)}))


def evenly_spread(problem: Problem, racks: Sequence[str]) -> Problem:
    """Return the group with its members spread evenly over racks, and as few of them moved as that allows.

    Members of each subscription are spread evenly, and so are all of them together; spread so already they stay.

    Args:
        problem: the group; each member has a rack.
        racks: the racks to spread over; those that the problem lacks are added to it.
    """
    problem = with_racks(problem, racks)
    places = np.array([problem.racks.index(rack) for rack in racks], np.int64)
    kind = problem.subscription_of * 2 + problem.reads_any_replica
    sizes = {int(one): int(count) for one, count in zip(*np.unique(kind, return_counts=True), strict=True)}
    total = np.zeros(len(places), np.int64)
    member_rack = problem.member_rack.copy()
    for size in sorted(sizes, key=lambda number: (-sizes[number], number)):
        mine = np.flatnonzero(kind == size)
        now = np.bincount(problem.member_rack[mine], minlength=len(problem.racks))[places]
        seats = _even(sizes[size], now, total)
        total += seats
        member_rack[mine] = _moved(problem.member_rack[mine], places, seats)
    return replace(problem, member_rack=member_rack)


def _even(members: int, now: Int64Array, total: Int64Array) -> Int64Array:
    """Return how many members each rack has: those left over go where fewest are so far, and then where most are."""
    seats = np.full(len(now), members // len(now), np.int64)
    order = np.lexsort((-now, total))
    seats[order[: members % len(now)]] += 1
    return seats


def _moved(racks: Int32Array, places: Int64Array, seats: Int64Array) -> Int32Array:
    """Return [M] racks with this number of members in each of the places; the first members of a rack stay."""
    moved = np.full(len(racks), NOBODY, np.int32)
    free: list[int] = []
    for place, count in zip(places.tolist(), seats.tolist(), strict=True):
        here = np.flatnonzero(racks == place)[:count]
        moved[here] = place
        free += [place] * (count - len(here))
    moved[moved == NOBODY] = free
    return moved


def racks_known(problem: Problem, cluster: ClusterView | SettledCluster) -> bool:
    """Return whether the rack of each broker with a replica of the group's topics is known."""
    placed = {
        broker
        for topic in problem.topics
        for partition in cluster.topics.get(topic, ())
        for broker in partition.replicas
    }
    return bool(placed) and all(isinstance(cluster.brokers.get(broker), str) for broker in placed)


def _loads(even: Problem, member_rack: Int32Array, read: BoolArray, rates: Rates | None) -> tuple[RackLoad, ...]:
    """Return each rack's load: `even` has its members spread evenly, `member_rack` [M] is where they are."""
    leads = (even.leader_rack[:, np.newaxis] == np.arange(len(even.racks))) & read[:, np.newaxis]
    near = even.replica_racks & read[:, np.newaxis] if even.reads_any_replica.any() else leads
    partitions = [
        (even.topics[topic], number)
        for topic, number in zip(even.topic_of.tolist(), even.number_of.tolist(), strict=True)
    ]
    loads = []
    for at in sorted(range(len(even.racks)), key=lambda index: even.racks[index]):
        mine = [(rates or {}).get(partitions[index]) for index in np.flatnonzero(near[:, at]).tolist()]
        known = [rate for rate in mine if rate is not None]
        loads.append(
            RackLoad(
                rack=even.racks[at],
                members=int(np.count_nonzero(member_rack == at)),
                even_members=int(np.count_nonzero(even.member_rack == at)),
                near_partitions=len(mine),
                leaders=int(np.count_nonzero(leads[:, at])),
                near_bytes_per_second=sum(known) if rates and len(known) == len(mine) else None,
            )
        )
    return tuple(loads)
