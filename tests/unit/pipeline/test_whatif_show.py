"""The what-if for people: reasons, advice, tables and JSON of each change; and what the command refuses."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from samerack.cli.main import app
from samerack.common.console import Console
from samerack.common.money import shipped
from samerack.pipeline.whatif_group import (
    COPIES,
    ELECT,
    LEAD,
    MOVE,
    NEAR,
    NEAR_LEAD,
    PRESENT,
    SKEW,
    STRATEGY,
    Questions,
)
from samerack.pipeline.whatif_show import (
    TEXTS,
    Failure,
    KindOfChange,
    WhatIf,
    WhatIfChange,
    WhatIfTotals,
    show,
    to_json,
)

CHANGE = WhatIfChange(
    scenario=LEAD,
    cluster="kafka",
    group="orders",
    topic="",
    reference=PRESENT,
    groups=1,
    saves_dollars=12.5,
    copying_dollars=0.0,
    kind="classic",
    assignor="range",
    rack_aware_fetch=False,
    members=6,
    members_without_rack=2,
    share=0.125,
    moves=3,
    placed="",
)
QUESTIONS = Questions(shares={"rack-a": 1, "rack-b": 3})
TOTALS = WhatIfTotals(
    groups=2, failed=1, unmeasured=1, read=5e6, across=1e6, unknown=2e6, dollars=48.9, possible_dollars=40.0, left_out=4
)
ANSWER = WhatIf(
    totals=TOTALS,
    kinds=[KindOfChange(scenario=LEAD, places=1, groups=1, saves_dollars=12.5)],
    ranking=[CHANGE],
    failures=[Failure(cluster="kafka", group="bad\x1bgroup", error="owners of topic 't': 9 is not one of ...")],
    prices=shipped("aws"),
    questions=QUESTIONS,
    seconds=1.0,
)

CASES: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({}, "range knows neither", "name orders in the agent's groups"),
    ({"kind": "consumer", "assignor": "uniform"}, "brokers assign it (KIP-848)", "group.protocol=classic"),
    ({"assignor": "RoundRobinAssigner"}, "knows neither", "; then stop all its consumers and start them again"),
    (
        {"scenario": SKEW, "assignor": "sticky", "reference": LEAD},
        "12 % would cross",
        "shows it first); then leading.max_skew=2",
    ),
    ({"scenario": SKEW}, "cannot be near for all", "leading.keep_copartitioned=never and leading.max_skew=2"),
    ({"scenario": NEAR}, "brokers serve from leaders only", "client.rack in its members and replica.selector.class="),
    ({"scenario": NEAR, "rack_aware_fetch": True}, "2 of 6 members fetch without a rack", "client.rack in its members"),
    (
        {"scenario": NEAR_LEAD, "reference": NEAR},
        "range knows",
        "RackAwareReplicaSelector on the brokers of kafka; then name orders in the agent's groups",
    ),
    (
        {"scenario": COPIES, "topic": "events", "groups": 3, "copying_dollars": 2.0, "reference": LEAD},
        "3 groups read it; fetching the copies costs $2.00",
        "raise events to replicas in 2 racks",
    ),
    (
        {"scenario": MOVE, "placed": "rack-a 2, rack-b 4"},
        "too few members",
        "run the members of orders in rack-a 2, rack-b 4",
    ),
    (
        {"scenario": ELECT, "kind": "streams-classic", "assignor": "stream", "reference": STRATEGY},
        "some racks lead more",
        "client.rack and rack.aware.assignment.strategy=min_traffic in its instances (`samerack streams plan",
    ),
)


@pytest.mark.parametrize(("fields", "reason", "advice"), CASES)
def test_a_change_says_why_and_what_to_do(fields: dict[str, Any], reason: str, advice: str) -> None:
    """Each cause has its advice, which names the settings, after what it comes on top of."""
    change = replace(CHANGE, **fields)
    (found,) = to_json(replace(ANSWER, ranking=[change]))["ranking"]
    assert reason in found["why"]
    assert advice in found["do"]
    assert found["do"].startswith("raise") == (change.scenario == COPIES)
    assert TEXTS[change.scenario].title


def shown(answer: WhatIf) -> str:
    """The text on a terminal, on one line."""
    text = io.StringIO()
    show(answer, Console(file=text, width=160))
    return " ".join(text.getvalue().split())


def test_the_tables_have_totals_kinds_ranking_and_failures() -> None:
    """Unknown facts stand beside the known ones; control characters in names are replaced."""
    text = shown(ANSWER)
    assert "2 groups read 5 MB/s, 1 MB/s of it across racks: $48.90 a month (AWS" in text
    assert "the rack of 2 MB/s is not known" in text
    assert "1 groups have no byte rates" in text
    assert "4 groups are left out: their last state is too old (--since)" in text
    assert "let the agent lead 1 $12.50" in text
    assert "$12.50 kafka/orders range knows" in text
    assert "not worked out: kafka/bad\ufffdgroup: owners of topic 't'" in text


def test_a_fleet_that_needs_nothing_gets_that_answer() -> None:
    """One sentence replaces an empty table."""
    nothing = replace(ANSWER, kinds=[], ranking=[], failures=[])
    assert "No change saves a cent a month." in shown(nothing)
    costs = replace(nothing, kinds=[KindOfChange(scenario=ELECT, places=2, groups=2, saves_dollars=-3.0)])
    assert "2 -$3.00 No change saves a cent a month." in shown(costs), "what was asked for costs more"
    assert "No change saves" not in shown(ANSWER)


def test_json_has_the_same() -> None:
    """One object contains each change with its reason and advice."""
    found = json.loads(json.dumps(to_json(ANSWER)))
    assert found["totals"]["dollars"] == 48.9
    assert found["ranking"][0]["do"].startswith("name orders")
    asked = {"max_skew": 2, "copies": 2, "shares": {"rack-a": 1, "rack-b": 3}, "new_rack": "", "max_topics": 5}
    assert found["questions"] == asked
    assert found["failures"][0]["group"] == "bad\x1bgroup"


@pytest.mark.parametrize("members", ["rack-a", "rack-a=x", "rack-a=-1", "rack-a=0", "rack-a=nan"])
def test_members_that_are_no_shares_are_refused(members: str) -> None:
    """They are refused before Spark starts."""
    result = CliRunner().invoke(app, ["pipeline", "whatif", "nowhere", "--members", members])
    assert result.exit_code == 2
    assert "--members" in result.stderr


def test_output_never_replaces_what_is_there(tmp_path: object) -> None:
    """An existing folder is refused, because it may belong to somebody else."""
    result = CliRunner().invoke(app, ["pipeline", "whatif", "nowhere", "--csv", str(tmp_path)])
    assert result.exit_code == 2
    assert "name a new folder" in result.stderr
