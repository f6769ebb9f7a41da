"""Balances members by the load of their partitions: implements `optimal` where loads, capacities or limits are given.

Units are partitions, or bundles with `keep_copartitioned`. Objective, lexicographic:

1. limits: no member has more partitions than it may,
2. the most loaded member, relative to its capacity, is within the tolerance of the least possible; one with a limit of
   partitions carries no more than that number of average ones,
3. no member is without partitions, where there are enough for all,
4. cross-rack weight,
5. moves: partitions whose new owner is not the current one,
6. even loads.

The least possible load of the most loaded member is NP-hard to find. A plan allows its members a proven lower bound of
it (`bound`), or the least that was found where no plan is within the tolerance of that, with the tolerance on top.
Within that limit a flow of loads, in which a unit may be split, decides how much of each kind of units is read in which
rack and how much stays; whole units are dealt by it, the heaviest first (`deal`), and exchanges mend what whole units
cannot follow (`exchange`). Small groups are solved exactly (`exact`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samerack.assignors.arrays import combine, row_codes
from samerack.assignors.consumer.copartition import bundle_prices, leagues_of
from samerack.assignors.consumer.load.bound import lower_bound, with_limits, with_room
from samerack.assignors.consumer.load.deal import plan_within
from samerack.assignors.consumer.load.exact import cheapest_plan, is_small, lowest_level
from samerack.assignors.consumer.load.exchange import mended
from samerack.assignors.consumer.load.units import SLACK, LoadUnits, greatest, rank, without_racks
from samerack.assignors.consumer.locality import Locality, locality
from samerack.assignors.problem import NOBODY, BoolArray, Int32Array, Int64Array, Problem

_CLOSE: Final = 0.005
"""A greatest load so little above its lower bound, as a share of it, is as good as the least possible."""


def assign_by_load(problem: Problem, *, tolerance: float, full: float = 0.0, keep_copartitioned: bool) -> Int32Array:
    """Compute the owner of each partition by the objective above, [P].

    Args:
        problem: the group, its members in the order that decides ties; every topic with partitions has a subscriber.
        tolerance: how far the most loaded member may be above the least possible, as a share of that.
        full: relative load to which members may be filled, though less is possible.
        keep_copartitioned: partition i of all topics with equal partition counts and equal subscribers goes to one
            member. It counts as kept only where the member stays that owns most of them.

    Raises:
        AssignmentError: the sum of the weights is too large.
    """
    units, partitions, unit_of = units_of(problem, keep_copartitioned=keep_copartitioned)
    owner = np.empty(len(problem.topic_of), np.int32)
    owner[partitions] = place_by_load(units, tolerance=tolerance, full=full)[unit_of]
    return owner


def loads_above_least(problem: Problem, *owners: Int32Array) -> tuple[float, ...] | None:
    """Return how far the most loaded member is above a proven lower bound, as a share of it, with each of the plans.

    None without any load. `owners` are [P]; partitions without an owner are left out. A plan can be even and still be
    above the bound, which may be too low: it is that of single partitions, also where bundles stay together.
    """
    units = units_of(problem, keep_copartitioned=False)[0]
    bound = lower_bound(with_room(units)) if len(units.load) else 0.0
    if bound <= 0:
        return None
    return tuple(max(0.0, each / bound - 1.0) for each in greatest_loads(problem, *owners))


def greatest_loads(problem: Problem, *owners: Int32Array) -> tuple[float, ...]:
    """Return the load of the most loaded member, relative to its capacity, with each of the plans, [P]."""
    loads, members = loads_of(problem), len(problem.members)
    capacity = np.ones(members) if problem.capacity is None else problem.capacity

    def of(owner: Int32Array) -> float:
        owned = owner != NOBODY
        by_member = np.bincount(owner[owned], weights=loads[owned], minlength=members)
        return float((by_member / capacity).max())

    return tuple(map(of, owners))


def place_by_load(units: LoadUnits, *, tolerance: float, full: float = 0.0) -> Int32Array:
    """Return the member of each of these units by the objective above, [U]."""
    units = with_limits(with_room(units if units.load.any() else replace(units, load=units.count.astype(np.float64))))
    bound = lower_bound(units)
    limit = max(bound * (1.0 + tolerance), full)
    if _stays(units, limit):
        return units.home.copy()
    small = is_small(units)
    if small or greatest(units, best := plan_within(units, limit, even=bound)) > limit * (1 + SLACK):
        lowest = _lowest(units, bound, small=small)
        level = greatest(units, lowest)
        limit = max(level * (1.0 + tolerance), full)
        plans = [plan_within(units, limit, even=level), mended(units, lowest, limit)]
        best = min(plans, key=lambda plan: rank(units, plan, limit))
    if small:
        best = cheapest_plan(units, best, limit)
    if (units.home != NOBODY).all() and rank(units, units.home, limit)[:4] <= rank(units, best, limit)[:4]:
        better = mended(units, units.home.copy(), limit)
        best = better if rank(units, better, limit) < rank(units, units.home, limit) else units.home.copy()
    return best


def _lowest(units: LoadUnits, bound: float, *, small: bool) -> Int32Array:
    """Return the plan of the least greatest load that is found, wherever units are read then."""
    free = without_racks(units)
    lowest = plan_within(free, bound, even=bound)
    return lowest_level(free, lowest) if small and greatest(free, lowest) > bound * (1 + _CLOSE) else lowest


def _stays(units: LoadUnits, limit: float) -> bool:
    """Return whether all units have owners who keep the limit and read nothing across racks: no plan is better."""
    if not len(units.home) or units.home.min() == NOBODY:
        return False
    return rank(units, units.home, limit)[:4] == (0, 0.0, 0, 0)


def loads_of(problem: Problem) -> Int64Array:
    """Return [P] the load of each partition: 1 each where none is given."""
    return np.ones(len(problem.topic_of), np.int64) if problem.loads is None else problem.loads


def units_of(problem: Problem, *, keep_copartitioned: bool) -> tuple[LoadUnits, Int64Array, Int64Array]:
    """Return the units of a problem, and the partitions of all units with the unit of each."""
    near, members = locality(problem), len(problem.members)
    group, _ = combine(problem.subscription_of, len(problem.subscriptions), near.column, near.prices.shape[1])
    bundled = _bundles(problem, near) if keep_copartitioned else _partitions(problem, near)
    partitions, unit_of, count = bundled.partition, bundled.unit, len(bundled.price)
    home, kept = _homes(problem.owner[partitions], unit_of, count, members)
    units = LoadUnits(
        load=np.bincount(unit_of, weights=loads_of(problem)[partitions], minlength=count).astype(np.float64),
        count=np.bincount(unit_of, minlength=count),
        kind=bundled.kind,
        may_have=bundled.may_have,
        price=bundled.price,
        prices=bundled.prices,
        column=near.column,
        group=group,
        home=home,
        kept=kept,
        capacity=np.ones(members) if problem.capacity is None else problem.capacity,
        most=np.full(members, len(partitions)) if problem.max_partitions is None else problem.max_partitions,
        wants=np.zeros(members, np.bool_),
    )
    return units, partitions, unit_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bundles:
    """Partitions, the unit of each, and what `LoadUnits` has of the units."""

    partition: Int64Array
    unit: Int64Array
    kind: Int32Array
    may_have: BoolArray
    price: Int32Array
    prices: Int64Array


def _partitions(problem: Problem, near: Locality) -> _Bundles:
    each = np.arange(len(problem.topic_of))
    kind_of_topic, wanted_by = row_codes(list(problem.subscriptions))
    return _Bundles(
        partition=each,
        unit=each,
        kind=kind_of_topic[problem.topic_of],
        may_have=wanted_by[:, problem.subscription_of],
        price=near.price,
        prices=near.prices,
    )


def _bundles(problem: Problem, near: Locality) -> _Bundles:
    leagues = leagues_of(problem)
    sizes = [league.partitions.shape[1] for league in leagues]
    units = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    may_have = np.zeros((len(leagues), len(problem.members)), np.bool_)
    for number, league in enumerate(leagues):
        may_have[number, league.members] = True
    price, prices = bundle_prices(leagues, near)
    return _Bundles(
        partition=np.concatenate([league.partitions.ravel() for league in leagues]),
        unit=np.concatenate([np.tile(of, len(one.partitions)) for one, of in zip(leagues, units, strict=True)]),
        kind=np.repeat(np.arange(len(leagues), dtype=np.int32), sizes),
        may_have=may_have,
        price=price,
        prices=prices,
    )


def _homes(owner: Int32Array, unit_of: Int64Array, count: int, members: int) -> tuple[Int32Array, Int64Array]:
    """Return [U] the member that owns most partitions of each unit, the first of several, and how many."""
    home, kept = np.full(count, NOBODY, np.int32), np.zeros(count, np.int64)
    owned = owner != NOBODY
    pairs, sizes = np.unique(unit_of[owned] * members + owner[owned], return_counts=True)
    order = np.lexsort((-pairs, sizes))  # the last one of a unit is written
    home[pairs[order] // members] = pairs[order] % members
    kept[pairs[order] // members] = sizes[order]
    return home, kept
