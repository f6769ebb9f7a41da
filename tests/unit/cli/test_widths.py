"""Tables at 60, 80 and 160 columns: they fit, no identity is cut, and the title says what the rows say."""

from __future__ import annotations

import re
from dataclasses import asdict
from io import StringIO
from typing import Any

import pytest
from rich.table import Table

from samerack.cli.cost import groups_table
from samerack.cli.live_plan import over_racks
from samerack.cli.plan import members_table, racks_from, racks_table, show_racks
from samerack.common.console import Console
from samerack.common.money import shipped
from samerack.planning.rack_spread import RackLoad, RackSpread
from samerack.reporting import costs
from tests.unit.agent.measured import GB, SPREAD, A, B, flow, group, snapshot

WIDTHS = (60, 80, 160)
IDS = [f"payments-consumer-{at}-5f0c1e5e-8c5b-4a57-9d0e-6d1f0a2b3c4{at}" for at in range(3)]


def shown(table: Table, width: int) -> list[str]:
    """The lines of a table on a terminal of this width."""
    console = Console(width=width, file=StringIO(), record=True)
    console.print(table)
    return console.export_text().splitlines()


def unfolded(lines: list[str], width: int) -> str:
    """The first column's text without the breaks of folding."""
    return "".join(re.split(r"\s{2,}", line.strip())[0] for line in lines if line[1:2] != " " and len(line) <= width)


def answer(*reads: str) -> dict[str, Any]:
    """What `plan` shows of three members that read so."""
    cost = {"partitions": [["clicks", at] for at in range(120)], "cross_rack": 80, "gained": 40}
    return {
        "group": "payments",
        "protocol": "range",
        "replicas_that_serve": "any replica in the member's rack",
        "members": [
            {
                "id": name,
                "rack": "us-east-1a",
                "rack_from": "subscription",
                "reads": one,
                "present": cost,
                "proposed": cost,
            }
            for name, one in zip(IDS, reads, strict=True)
        ],
    }


@pytest.mark.parametrize("width", WIDTHS)
def test_a_plan_fits_and_names_each_member(width: int) -> None:
    """Each member takes three lines at most from 80 columns on, and its whole id is there at any width."""
    lines = shown(members_table(answer("leaders", "leaders", "leaders"), width), width)
    assert max(map(len, lines)) <= width
    text = unfolded(lines, width)
    for name in IDS:
        assert name in text
    if width >= 80:
        assert len(lines) <= 5 + 3 * len(IDS)


def test_a_plan_says_where_racks_are_from() -> None:
    """A narrow table has no room for it, so a line names each source with its number of members."""
    sources = ("subscription", "client-convention", "client-convention")
    members = [{"rack_from": source} for source in sources]
    assert racks_from(members) == "racks from: client-convention (2), subscription (1)"


@pytest.mark.parametrize("width", WIDTHS)
def test_costs_fit_and_name_each_group(width: int) -> None:
    """The name of a group is whole, and its price is there."""
    names = ["a-group-with-a-long-name-of-some-team.v2", "orders"]
    taken = snapshot(*(group(name, flows=[flow(A, B, 900 * GB)], members=SPREAD) for name in names))
    report = costs.report(taken, shipped("aws"), roles={})
    lines = shown(groups_table(report, width=width, total=True), width)
    assert max(map(len, lines)) <= width
    text = unfolded(lines, width)
    for name in names:
        assert name in text
    assert sum("$" in line for line in lines) == 3


@pytest.mark.parametrize(
    ("reads", "title"),
    [
        (("any replica",) * 3, "members read any replica in their rack"),
        (("leaders",) * 3, "members read leaders only, as none is known to fetch with its rack"),
        (("any replica", "leaders", "leaders"), "1 of 3 members read any replica in their rack, the others leaders"),
    ],
)
def test_the_title_of_a_plan_says_what_its_rows_say(reads: tuple[str, ...], title: str) -> None:
    """The brokers may serve any replica while no member asks for it."""
    lines = shown(members_table(answer(*reads), 160), 160)
    assert f"group payments (range): {title}" in lines[0]
    rows = [line for line in lines if "120/80" in line]
    assert [next(word for word in ("any replica", "leaders") if word in row) for row in rows] == list(reads)


@pytest.mark.parametrize("width", WIDTHS)
def test_racks_of_a_plan_fit(width: int) -> None:
    """A rack's row has its members, how many would be even, and what is near; what is not measured is a dash."""
    names = ("us-east-1a", "us-east-1b", "us-gov-west-1c")
    loads = [
        RackLoad(
            rack=name,
            members=1_200,
            even_members=1_000,
            near_partitions=12_000,
            leaders=4_000,
            near_bytes_per_second=1.25e9 if name == names[0] else None,
        )
        for name in names
    ]
    lines = shown(racks_table({"racks": [asdict(one) for one in loads]}), width)
    assert max(map(len, lines)) <= width
    rows = [next(line for line in lines if line.strip().startswith(name)) for name in names]
    assert rows[0].split() == ["us-east-1a", "1200", "1000", "12000", "1.25", "GB/s"]
    assert rows[2].split() == ["us-gov-west-1c", "1200", "1000", "12000", "-"]


def test_a_plan_warns_of_uneven_members(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows the racks and the cure where even members would save something; what is not known it calls unknown."""
    console = Console(width=80)
    show_racks(console, None)
    assert capsys.readouterr().out == "members and partitions by rack: unknown\n"
    load = {"rack": "a", "members": 4, "even_members": 2, "near_partitions": 2, "near_bytes_per_second": None}
    show_racks(console, {"racks": [load], "cause": None, "cure": None})
    assert capsys.readouterr().out == ""
    show_racks(console, {"racks": [load], "cause": "33% must cross", "cure": "fewer in a"})
    shown_lines = capsys.readouterr().out.splitlines()
    assert "warning: 33% must cross; fewer in a" in shown_lines
    assert any(line.split() == ["a", "4", "2", "2", "-"] for line in shown_lines)


def test_a_plan_names_one_cause() -> None:
    """Members in a rack without brokers are another warning; a spread that is not known is null."""
    loads = [
        RackLoad(rack=rack, members=count, even_members=2, near_partitions=2, leaders=2, near_bytes_per_second=None)
        for rack, count in (("a", 3), ("b", 1))
    ]
    spread = RackSpread(racks=tuple(loads), partitions=4, across=1, share=0.25, across_if_even=0, share_if_even=0.0)
    told = over_racks(spread, elsewhere=())
    assert told is not None
    assert "25% across racks (1 of 4 partitions), 0% if" in told["cause"]
    assert "fewer in a (2, not 3), more in b (2, not 1)" in told["cure"]
    assert [one["rack"] for one in told["racks"]] == ["a", "b"]
    stranger = over_racks(spread, elsewhere={"x"})
    assert stranger is not None
    assert (stranger["cause"], stranger["cure"]) == (None, None)
    assert over_racks(None, elsewhere=()) is None
