"""No amount is a number where an input of it is not known: in JSON null, in tables `-` or a word; 0 was measured."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from samerack.cli.cost import groups_table
from samerack.cli.main import app
from samerack.common import words
from samerack.common.money import shipped
from samerack.reporting import costs
from samerack.reporting.evidence import Code
from samerack.reporting.report import to_json
from samerack.traffic.snapshot import GroupTraffic, Shares
from tests.unit.agent.measured import GB, A, flow, group, reports, snapshot
from tests.unit.agent.test_verify import verdict_of
from tests.unit.agent.test_verify_prices import groups
from tests.unit.cli.tables import cells_of
from tests.unit.cli.test_cost import served

OF_BYTES: Final = ("wire_bytes", "cross_rack_bytes", "unknown_bytes", "bytes_per_second")
OF_DOLLARS: Final = (
    "dollars",
    "dollars_per_month",
    "saved_dollars_per_month",
    "avoidable_dollars_per_month",
    "guessed_dollars_per_month",
)
CROSSING: Final = ("cross_rack_bytes", "dollars_per_month", "avoidable_dollars_per_month")
WIDTH: Final = 200


def unmeasured(taken: GroupTraffic) -> GroupTraffic:
    """The group as it is where brokers do not say how large their logs are: it read something, of no known size."""
    flows = [replace(one, volume=replace(one.volume, wire_bytes=0)) for one in taken.flows]
    return replace(taken, flows=tuple(flows), bytes_per_second=None, shares=replace(taken.shares, present_bytes=None))


@st.composite
def parts(draw: st.DrawFn) -> list[GroupTraffic]:
    """Some groups with unknown racks, shares and brokers; the bytes of some are not known."""
    found = [draw(groups())[0] for _ in range(draw(st.integers(1, 3)))]
    named = [replace(one, group=f"g{at}") for at, one in enumerate(found)]
    named = [unmeasured(one) if draw(st.booleans()) else one for one in named]
    return [*named, replace(group("idle"), members=())] if draw(st.booleans()) else named


@given(parts(), st.sampled_from((True, False, None)))
def test_no_amount_is_a_number_where_an_input_is_unknown(taken: list[GroupTraffic], aware: bool | None) -> None:  # noqa: FBT001 - a state of brokers
    """Each amount of each group, of all and of each finding, in JSON and in the table."""
    cluster = snapshot(*taken, rack_aware_fetch=aware)
    report = costs.report(cluster, shipped("aws"), roles={one.group: "leading" for one in taken})
    shown: dict[str, Any] = json.loads(to_json(report))
    rows = {row[0]: row for row in cells_of(groups_table(report, width=WIDTH, total=True), WIDTH, figure="reads")[1:]}
    heads = cells_of(groups_table(report, width=WIDTH, total=True), WIDTH, figure="reads")[0]
    blind = {one.group for one in taken if one.bytes_per_second is None}
    for one in shown["groups"]:
        amounts = {name: one[name] for name in OF_BYTES + OF_DOLLARS}
        unknown = sum(pair["wire_bytes"] for pair in one["pairs"] if not (pair["client_rack"] and pair["replica_rack"]))
        if one["group"] in blind:
            assert set(amounts.values()) == {None}
            assert one["pairs"] == []
            assert all((of["wire_bytes"], of["cross_rack_bytes"], of["dollars"]) == (None,) * 3 for of in one["topics"])
            cells = [rows[one["group"]][heads.index(name)] for name in ("reads", "across", "a month")]
            assert not re.search(r"\d", " ".join(cells))
        elif unknown:
            assert 0 not in [amounts[name] for name in CROSSING[:2]]
            assert rows[one["group"]][heads.index("a month")] != "$0"
    whole = not blind and not shown["totals"]["unknown_bytes"]
    assert whole or 0 not in [shown["totals"][name] for name in CROSSING]
    if len(blind) == len(taken):
        assert {shown["totals"][name] for name in (*OF_BYTES[:3], *CROSSING, "guessed_dollars_per_month")} == {None}
    assert shown["totals"]["unmeasured_groups"] == len(blind)
    for finding in verdict_of(cluster).findings:
        if finding.where.removeprefix("group ") in blind:
            assert finding.dollars_per_month is None
            assert finding.code is not Code.NO_RACK_AWARE_SELECTOR


def test_verify_does_not_price_what_brokers_do_not_say() -> None:
    """Without DESCRIBE on the cluster no size is known: found as "$0 a month" beside nine findings that cost money."""
    bare = unmeasured(group("bare", members={"m1": None}, flows=[flow("", A, GB)], shares=Shares(random=2 / 3)))
    with served(reports(snapshot(bare))) as port:
        done = CliRunner().invoke(app, ["verify", "-s", f"web.port={port}"], env={"COLUMNS": "200"})
    assert done.exit_code == 1
    assert "group bare: members-without-rack" in done.stdout
    assert "across racks: unknown; avoidable with better plans: unknown" in done.stdout
    assert "not in it: 1 groups whose bytes are unknown" in done.stdout
    assert "$0" not in done.stdout


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_where_no_rack_is_known_the_headline_says_what_it_may_come_to(columns: str) -> None:
    """Found as `all 13 … 0 B 0 % $0`, as one of them had read nothing; what the others may cost stood below."""
    bare = [
        group(f"g{at:02}", members={"m1": None}, flows=[flow("", A, GB)], shares=Shares(random=2 / 3))
        for at in range(12)
    ]
    shown = reports(snapshot(*bare, group("idle")))
    guess = words.estimate(shown.report().totals.guessed_dollars_per_month or 0, guessed=True)
    with served(shown) as port:
        done = CliRunner().invoke(app, ["cost", "-s", f"web.port={port}"], env={"COLUMNS": columns})
    lines = done.stdout.splitlines()
    first = next(at for at, line in enumerate(lines) if line.strip().startswith("all 13"))
    row = " ".join(" ".join(lines[first : first + 3]).split())
    assert "unknown," in row
    assert all(word in row for word in guess.split())
    assert not re.search(r"\b0 B\b|\b0 %|\$0\b", row)
    assert f"across racks: unknown, {guess};" in " ".join(done.stdout.split())
