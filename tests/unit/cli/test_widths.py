"""Tables at 60, 80 and 160 columns: they fit, no identity is cut, and the title says what the rows say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from samerack.cli.cost import groups_table
from samerack.cli.live_plan import LivePlan, OverRacks, OwnedPartitions, PlanFigures, PlannedMember, over_racks
from samerack.cli.plan import heading, members_table, racks_from, racks_table, show, show_racks
from samerack.common import words
from samerack.common.console import Console
from samerack.common.money import shipped
from samerack.offline.assign import show_points
from samerack.planning.curve import CurvePoint
from samerack.planning.rack_spread import RackLoad, RackSpread
from samerack.reporting import costs
from tests.unit.agent.leading.policies import cost
from tests.unit.agent.measured import GB, SPREAD, A, B, flow, group, snapshot
from tests.unit.cli.tables import cells_of, lines_of

WIDTHS = (60, 80, 160)
IDS = [f"payments-consumer-{at}-5f0c1e5e-8c5b-4a57-9d0e-6d1f0a2b3c4{at}" for at in range(3)]
NAMES = [f"payments-consumer-{at}" for at in range(3)]


def planned(*reads: str, client_ids: Sequence[str] = NAMES, gained: int = 40) -> LivePlan:
    """What `plan` shows of three members that read so."""
    owned = OwnedPartitions(partitions=tuple(("clicks", at) for at in range(120)), cross_rack=80, gained=gained)
    whole = PlanFigures(
        cost=replace(cost(240, 360), moved=120),
        cross_rack_share=2 / 3,
    )
    return LivePlan(
        assignor="optimal",
        assigned_by="members",
        weighed_by="partitions",
        present=whole,
        proposed=whole,
        over_racks=None,
        copartitioning=None,
        agent_leads="when its leader leaves, nearly always within one rolling deploy",
        agent_only_observes=None,
        agent_is_paused=None,
        server=None,
        warnings=(),
        group="payments",
        protocol="range",
        replicas_that_serve="any replica in the member's rack",
        members=tuple(
            PlannedMember(
                id=name,
                client_id=client_id,
                rack="us-east-1a",
                rack_from="subscription",
                reads=one,
                present=owned,
                proposed=owned,
            )
            for name, client_id, one in zip(IDS, client_ids, reads, strict=True)
        ),
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_a_plan_fits_and_names_each_member(width: int) -> None:
    """Each member has its name, rack and figures at any width, and one line from 80 columns on."""
    table = members_table(planned("leaders", "leaders", "leaders").members, width)
    wide = ["subscription", "leaders"] if width == 160 else []
    gained = ["40"] if width >= 80 else []
    rows = cells_of(table, width, figure="now/across")[1:]
    assert rows == [[name, "us-east-1a", *wide, "120/80", "120/80", *gained] for name in NAMES]
    if width >= 80:
        assert sum("us-east-1a" in line for line in lines_of(table, width)) == len(IDS)
        assert len([line for line in lines_of(table, width) if line.strip()]) == 2 + len(IDS)


@pytest.mark.parametrize("width", WIDTHS)
def test_members_with_one_client_id_are_distinguished(width: int) -> None:
    """The shortest part of the member id that does it is shown; a column in which nothing is gained is not."""
    same = planned("leaders", "leaders", "leaders", client_ids=["payments"] * 3, gained=0)
    heading, *rows = cells_of(members_table(same.members, width), width, figure="now/across")
    names = [row[0] for row in rows]
    assert names == NAMES  # the client id, and what distinguishes the members after it
    assert "gained" not in heading


def test_a_plan_begins_with_its_summary(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares come first, then the members; three of them need less than a screen of 80 columns and 24 lines."""
    monkeypatch.setenv("COLUMNS", "80")
    show(planned("leaders", "leaders", "leaders"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("across racks: now 240 partitions (67 %), with optimal 240 partitions (67 %)")
    assert len(lines) < 20


def test_a_plan_says_where_racks_are_from() -> None:
    """A narrow table has no room for it, so a line names each source with its number of members."""
    sources = ("subscription", "client-convention", "client-convention")
    members = [replace(one, rack_from=source) for one, source in zip(planned(*IDS).members, sources, strict=True)]
    assert racks_from(members) == "racks from: client-convention (2), subscription (1)"


@pytest.mark.parametrize("width", WIDTHS)
def test_costs_fit_and_name_each_group(width: int) -> None:
    """The name of a group is whole, and its price is there."""
    names = ["a-group-with-a-long-name-of-some-team.v2", "orders"]
    taken = snapshot(*(group(name, flows=[flow(A, B, 900 * GB)], members=SPREAD) for name in names))
    report = costs.report(taken, shipped("aws"), roles={})
    heading, *rows = cells_of(groups_table(report, width=width, total=True), width, figure="a month")
    assert [row[0] for row in rows] == ["all 2", *names]
    cost = report.groups[0]
    shown = {
        "across": words.size(cost.cross_rack_bytes),
        "share": "0 %",
        "a month": words.money(cost.dollars_per_month),
    }
    for title, text in shown.items():
        assert [row[heading.index(title)] for row in rows[1:]] == [text, text]


def test_a_name_of_twenty_letters_is_not_broken_where_nothing_is_led() -> None:
    """At 80 columns; `saved` is not there, as no group has it."""
    taken = snapshot(group("twenty-letters-long1", flows=[flow(A, B, 900 * GB)], members=SPREAD))
    table = groups_table(costs.report(taken, shipped("aws"), roles={}), width=80)
    assert any(line.strip().startswith("twenty-letters-long1 ") for line in lines_of(table, 80))
    assert "saved" not in cells_of(table, 80, figure="a month")[0]
    led = groups_table(costs.report(taken, shipped("aws"), roles={"twenty-letters-long1": "leading"}), width=80)
    assert "saved" not in cells_of(led, 80, figure="a month")[0]  # what its own assignor would read is not known


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
    assert heading(planned(*reads)) == f"group payments (range): {title}"
    titles, *rows = cells_of(members_table(planned(*reads).members, 160), 160, figure="now/across")
    assert [row[titles.index("reads")] for row in rows] == list(reads)


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
    rows = cells_of(racks_table(loads, width), width, figure="near")[1:]
    assert rows[0] == ["us-east-1a", "1200", "1000", "12000", "1.25 GB/s"]
    assert rows[2] == ["us-gov-west-1c", "1200", "1000", "12000", "-"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_curve_fits(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each figure of each point is there at any width."""
    point = CurvePoint(
        max_skew=1000,
        cross_rack=120_000,
        cross_rack_share=0.0999,
        fullest=9000,
        emptiest=8000,
        imbalance=1000,
        moved=100_000,
    )
    show_points([point], Console(width=width))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.split() == ["1000", "120000", "10", "%", "9000", "8000", "100000"] for line in lines)


def test_a_plan_warns_of_uneven_members(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows the racks and the cure where even members would save something; what is not known it calls unknown."""
    console = Console(width=80)
    show_racks(console, None)
    assert capsys.readouterr().out == "members and partitions by rack: unknown\n"
    load = RackLoad(rack="a", members=4, even_members=2, near_partitions=2, leaders=2, near_bytes_per_second=None)
    spread = RackSpread(racks=(load,), partitions=3, across=1, share=0.33, across_if_even=0, share_if_even=0.0)
    show_racks(console, OverRacks(spread=spread, cause=None, cure=None))
    assert capsys.readouterr().out == ""
    show_racks(console, OverRacks(spread=spread, cause="33% must cross", cure="fewer in a"))
    shown_lines = capsys.readouterr().out.splitlines()
    assert "warning: 33% must cross; fewer in a" in shown_lines
    assert any(line.split() == ["a", "4", "2", "2"] for line in shown_lines)  # no rate of any rack is known


def test_a_plan_names_one_cause() -> None:
    """Members in a rack without brokers are another warning; a spread that is not known is null."""
    loads = [
        RackLoad(rack=rack, members=count, even_members=2, near_partitions=2, leaders=2, near_bytes_per_second=None)
        for rack, count in (("a", 3), ("b", 1))
    ]
    spread = RackSpread(racks=tuple(loads), partitions=4, across=1, share=0.25, across_if_even=0, share_if_even=0.0)
    reason = over_racks(spread, elsewhere=())
    assert reason is not None
    assert reason.cause is not None
    assert "25% across racks (1 of 4 partitions), 0% if" in reason.cause
    assert reason.cure is not None
    assert "fewer in a (2, not 3), more in b (2, not 1)" in reason.cure
    assert reason.spread == spread
    stranger = over_racks(spread, elsewhere={"x"})
    assert stranger is not None
    assert (stranger.cause, stranger.cure) == (None, None)
    assert over_racks(None, elsewhere=()) is None
