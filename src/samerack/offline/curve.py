"""What would cross racks if members could have more than a fair share: `samerack plan` and `assign` with `--curve`."""

from __future__ import annotations

from functools import partial
from typing import Any

from samerack.assignors.consumer.curve import curve as curve_of
from samerack.assignors.consumer.registry import Options
from samerack.assignors.evaluate import Rates, share_of_owners
from samerack.assignors.problem import Problem
from samerack.common import words
from samerack.common.console import Column, Console, table_of
from samerack.planning.deadline import DEADLINE_SECONDS, assign_aside


def points_of(
    problem: Problem, options: Options, *, seconds: float = DEADLINE_SECONDS, rates: Rates | None = None
) -> list[dict[str, Any]]:
    """Return the points of the curve as JSON values; shares are of partitions, or of bytes where rates are measured.

    Raises:
        AssignmentError: the options know no skew, or a point took longer than these seconds.
    """
    return [
        {
            "max_skew": point.max_skew,
            "cross_rack": point.cost.known_partitions_across,
            "cross_rack_share": _rounded(share_of_owners(problem, point.owner, rates)),
            "fullest": point.fullest,
            "emptiest": point.emptiest,
            "imbalance": point.cost.imbalance,
            "moved": point.cost.moved,
        }
        for point in curve_of(problem, options, assign=partial(assign_aside, "optimal", seconds=seconds))
    ]


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 6)


def show_points(points: list[dict[str, Any]], console: Console) -> None:
    """Print the points as a table."""
    console.print("what crosses racks against max_skew")
    columns = {
        "max_skew": [str(point["max_skew"]) for point in points],
        "across racks": [words.count(point["cross_rack"]) for point in points],
        "share": [words.percent(point["cross_rack_share"]) for point in points],
        **{key: [str(point[key]) for point in points] for key in ("fullest", "emptiest", "moved")},
    }
    console.print(
        table_of(
            (Column(title=title, cells=cells, number=True) for title, cells in columns.items()), width=console.width
        )
    )
