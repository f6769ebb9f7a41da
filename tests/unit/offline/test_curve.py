"""`samerack assign --curve` shows what uneven loads would save."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.registry import Options
from samerack.offline import assign
from samerack.planning.curve import points_of

GROUP: dict[str, Any] = {
    "brokers": [{"id": 0, "rack": "a"}],
    "topics": {"t": [[0]] * 10},
    "members": [{"id": f"m{rack}", "topics": ["t"], "rack": rack} for rack in "ab"],
}


def run(*arguments: str, given: object) -> Any:
    """Run the command as a program of its own."""
    app = typer.Typer()
    assign.register(app)
    app.command("other")(lambda: None)  # with a single command typer would drop its name
    return CliRunner().invoke(app, ["assign", "--curve", *arguments], input=json.dumps(given))


def test_points_from_a_fair_share_to_all_near() -> None:
    """The curve ends at the least skew with all reads near, found by bisection between two steps."""
    points = json.loads(run("-", "--json", given=GROUP).stdout)["points"]
    assert [(point["max_skew"], point["cross_rack"]) for point in points] == [(0, 5), (1, 4), (2, 3), (5, 0)]
    assert points[1] | {"moved": 0} == {
        "max_skew": 1,
        "cross_rack": 4,
        "cross_rack_share": 0.4,
        "fullest": 6,
        "emptiest": 4,
        "imbalance": 2,
        "moved": 0,
    }


@pytest.mark.parametrize(
    "loads",
    [
        {"loads": {"t": [10] * 10}},
        {"members": [one | {"capacity": 2} if one["rack"] == "a" else one for one in GROUP["members"]]},
        {"members": [one | {"max_partitions": 5} for one in GROUP["members"]]},
    ],
    ids=["loads", "capacity", "max_partitions"],
)
def test_points_are_by_counts_also_where_members_are_balanced_by_load(loads: dict[str, Any]) -> None:
    """Only plans by counts have a skew: by loads the curve was one point, whatever uneven counts would save."""
    assert run("-", "--json", given=GROUP | loads).stdout == run("-", "--json", given=GROUP).stdout


def test_last_point_lies_between_two_steps() -> None:
    """If 5 is not enough and 10 too much, the last point is the least that is enough."""
    group = GROUP | {"topics": {"t": [[0]] * 17}}
    points = json.loads(run("-", "--json", given=group).stdout)["points"]
    assert [point["max_skew"] for point in points] == [0, 1, 2, 5, 8]
    assert points[-1]["cross_rack"] == 0


def test_table_for_people() -> None:
    """Without --json there is a table."""
    result = run("-", given=GROUP)
    assert result.exit_code == 0
    assert "max_skew" in result.stdout
    assert "50 %" in result.stdout


def test_nothing_to_save_is_one_point() -> None:
    """A group that reads everything near without skew has one point only."""
    problem = build_problem(topics={"t": [["a"]]}, members=[MemberInput(id="m", topics=("t",), rack="a")])
    assert [point.max_skew for point in points_of(problem, Options())] == [0]


@pytest.mark.parametrize(
    ("given", "message"),
    [([], "should be an object"), (GROUP | {"keep_copartitioned": True}, "do not go together"), ({}, "'brokers'")],
)
def test_wrong_input_is_one_line(given: object, message: str) -> None:
    """Input that is no group, or that allows no skew, gives one line and exit code 2."""
    result = run("-", given=given)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
