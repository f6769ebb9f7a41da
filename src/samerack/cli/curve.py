"""`samerack curve`: what would cross racks if members could have more than a fair share of a group's partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from samerack.assignors.consumer.curve import curve as curve_of
from samerack.assignors.consumer.registry import Options
from samerack.assignors.problem import AssignmentError, Int32Array, Problem
from samerack.common import words
from samerack.common.console import Column, Console, table_of
from samerack.offline.assign_json import options_of, parse, problem_of
from samerack.offline.json_lines import QuestionError, content_of, one_line_errors
from samerack.planning.byte_shares import Rates, share_of_owners
from samerack.planning.deadline import DEADLINE_SECONDS, LateError, assign_in_time


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("curve", no_args_is_help=True)(curve)


def curve(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="The group as `samerack assign` takes it; - for standard input.")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show what crosses racks against max_skew: how many partitions more than its fair share a member may have.

    From no skew to the least that brings every partition as near as it can be. Each plan is the best within its skew.
    """
    with one_line_errors("curve", AssignmentError, LateError):
        # the assignor of the description does not matter here, so it may be left out
        question = parse(json.dumps({"assignor": "optimal", **_object(content_of(source))}), known_keys_only=True)
        points = points_of(problem_of(question), options_of(question), seconds=question.deadline_seconds)
    if as_json:
        typer.echo(json.dumps({"points": points}))
    else:
        show_points(points, Console())


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise QuestionError(f"no JSON ({error}); see samerack assign --help") from None
    if not isinstance(value, dict):
        raise QuestionError("expected one JSON object; see samerack assign --help")
    return value


def points_of(
    problem: Problem, options: Options, *, seconds: float = DEADLINE_SECONDS, rates: Rates | None = None
) -> list[dict[str, Any]]:
    """Return the points of the curve as JSON values; shares are of partitions, or of bytes where rates are measured.

    Raises:
        AssignmentError: the options know no skew.
        LateError: a point took longer than these seconds.
    """

    def assign(group: Problem, wanted: Options) -> Int32Array:
        return assign_in_time("optimal", group, wanted, seconds=seconds)[0]

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
        for point in curve_of(problem, options, assign=assign)
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
