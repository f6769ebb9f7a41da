"""Computes what uneven loads would save: cross-rack cost by `max_skew`, from a fair share to the least possible."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.consumer.optimal import DEFAULTS, Options
from samerack.assignors.consumer.optimal import assign as assign_optimal
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Cost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from samerack.assignors.problem import Int32Array, Problem

STEPS: Final = (1, 2, 5)
"""Skews to try: these, ten times these, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPoint:
    """One plan of the curve.

    Attributes:
        max_skew: partitions beyond a fair share that the plan allows.
        cost: cost of the plan.
        fullest: partitions of the member that has most.
        emptiest: partitions of the member that has least.
        owner: [P] the plan.
    """

    max_skew: int
    cost: Cost
    fullest: int
    emptiest: int
    owner: Int32Array


def curve(
    problem: Problem, options: Options = DEFAULTS, *, assign: Callable[[Problem, Options], Int32Array] = assign_optimal
) -> Iterator[PlanPoint]:
    """Yield the points from no skew to the least skew with the least possible cross-rack cost, in ascending order.

    The last point, the least skew above which more skew saves nothing, is found by bisection.

    Args:
        problem: the group.
        options: the group's other options; `max_skew` is replaced.
        assign: computes a plan.

    Raises:
        AssignmentError: as `optimal.assign`; also with `keep_copartitioned`, which allows no skew.

    Complexity: as many plans as the greatest skew has digits, times 3, and as many again for the last point.
    """

    def point(skew: int) -> PlanPoint:
        owner = assign(problem, replace(options, max_skew=skew))
        loads = np.bincount(owner[owner != NOBODY], minlength=max(1, len(problem.members)))
        cost = evaluate(problem, owner)
        return PlanPoint(max_skew=skew, cost=cost, fullest=int(loads.max()), emptiest=int(loads.min()), owner=owner)

    # a skew of at least 1, so that `keep_copartitioned` is refused at once
    nearest = point(max(1, len(problem.owner))).cost.cross_rack_weight
    last = point(0)
    for skew in _steps():
        if last.cost.cross_rack_weight <= nearest:
            yield last
            return
        found = point(skew)
        if found.cost.cross_rack_weight <= nearest:
            yield last
            yield _least(last.max_skew, found, nearest, point)
            return
        yield last
        last = found


def _least(below: int, found: PlanPoint, nearest: int, point: Callable[[int], PlanPoint]) -> PlanPoint:
    """Return the point of the least skew above `below` whose cross-rack weight is at most `nearest`."""
    while found.max_skew - below > 1:
        middle = point((below + found.max_skew) // 2)
        if middle.cost.cross_rack_weight <= nearest:
            found = middle
        else:
            below = middle.max_skew
    return found


def _steps() -> Iterator[int]:
    for power in count():
        yield from (step * 10**power for step in STEPS)
