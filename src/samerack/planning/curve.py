"""What would cross racks if members could have more than a fair share: for `plan` and `assign`, and for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from samerack.assignors.consumer.registry import DEFAULTS, Options
from samerack.assignors.evaluate import Rates, evaluate, share_of_owners
from samerack.assignors.problem import NOBODY, Cost, Int32Array, Problem
from samerack.planning.deadline import DEADLINE_SECONDS, assign_aside

_STEPS: Final = (1, 2, 5)
"""Skews to try: these, ten times these, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A plan less even by `max_skew`, as JSON and the page have it.

    Attributes:
        cross_rack: partitions that cross racks; None if the racks of members or brokers are not known.
        cross_rack_share: their share, of bytes where rates are measured; None like them.
        fullest: partitions of the member that has most.
        emptiest: partitions of the member that has least.
        imbalance: the difference of both.
        moved: partitions that are not where they are now.
    """

    max_skew: int
    cross_rack: int | None
    cross_rack_share: float | None
    fullest: int
    emptiest: int
    imbalance: int
    moved: int


def points_of(
    problem: Problem, options: Options = DEFAULTS, *, seconds: float = DEADLINE_SECONDS, rates: Rates | None = None
) -> tuple[CurvePoint, ...]:
    """Return plans from balanced to most local: no skew first, then more until more saves nothing.

    The last one, of the least skew with the least possible cross-rack cost, is found by bisection.

    Raises:
        AssignmentError: the options know no skew, or a point took longer than these seconds.

    Complexity: as many plans as the greatest skew has digits, times 3, and as many again for the last point.
    """

    def plan(skew: int) -> _Plan:
        owner = assign_aside("optimal", problem, replace(options, max_skew=skew), seconds=seconds)
        return _Plan(skew, owner, evaluate(problem, owner))

    # a skew of at least 1, so that `keep_copartitioned` is refused at once
    nearest = plan(max(1, len(problem.owner))).cost.cross_rack_weight
    plans = [plan(0)]
    for skew in _steps():
        if plans[-1].cost.cross_rack_weight <= nearest:
            break
        plans.append(plan(skew))
    if len(plans) > 1:
        plans[-1] = _least(plans[-2].max_skew, plans[-1], nearest, plan)
    return tuple(_point(problem, one, rates) for one in plans)


class _Plan(NamedTuple):
    max_skew: int
    owner: Int32Array
    cost: Cost


def _least(below: int, found: _Plan, nearest: int, plan: Callable[[int], _Plan]) -> _Plan:
    """Return the plan of the least skew above `below` whose cross-rack weight is at most `nearest`."""
    while found.max_skew - below > 1:
        middle = plan((below + found.max_skew) // 2)
        if middle.cost.cross_rack_weight <= nearest:
            found = middle
        else:
            below = middle.max_skew
    return found


def _steps() -> Iterator[int]:
    for power in count():
        yield from (step * 10**power for step in _STEPS)


def _point(problem: Problem, plan: _Plan, rates: Rates | None) -> CurvePoint:
    loads = np.bincount(plan.owner[plan.owner != NOBODY], minlength=max(1, len(problem.members)))
    share = share_of_owners(problem, plan.owner, rates)
    return CurvePoint(
        max_skew=plan.max_skew,
        cross_rack=plan.cost.known_partitions_across,
        cross_rack_share=None if share is None else round(share, 6),
        fullest=int(loads.max()),
        emptiest=int(loads.min()),
        imbalance=plan.cost.imbalance,
        moved=plan.cost.moved,
    )
