"""What would cross racks if members could have more than a fair share: for `plan` and `assign`, and for the page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from samerack.assignors.consumer.curve import curve
from samerack.assignors.consumer.registry import DEFAULTS, Options
from samerack.assignors.evaluate import Rates, share_of_owners
from samerack.assignors.problem import Int32Array, Problem
from samerack.planning.deadline import DEADLINE_SECONDS, assign_aside


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
    """Return plans from balanced to most local.

    Raises:
        AssignmentError: the options know no skew, or a point took longer than these seconds.
    """

    def share(owner: Int32Array) -> float | None:
        known = share_of_owners(problem, owner, rates)
        return None if known is None else round(known, 6)

    return tuple(
        CurvePoint(
            max_skew=point.max_skew,
            cross_rack=point.cost.known_partitions_across,
            cross_rack_share=share(point.owner),
            fullest=point.fullest,
            emptiest=point.emptiest,
            imbalance=point.cost.imbalance,
            moved=point.cost.moved,
        )
        for point in curve(problem, options, assign=partial(assign_aside, "optimal", seconds=seconds))
    )
