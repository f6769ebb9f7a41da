"""docs/operating.md claims only what tests check, and its causes are those of the program."""

from __future__ import annotations

import json
import re
from typing import Any

from samerack.agent.metrics import Metrics
from samerack.agent.policy.back_off_causes import RULES
from tests.docs import ROOT

_IN_A_REBALANCE = ("parked-", "joined-", "synced-")
_AT_REST = ("worker-", "agent-", "network-", "clock-", "disk-")
"""Prefixes of the kinds of faults that hit an agent."""
_PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")


def _seconds(seconds: float) -> str:
    return f"{seconds:g} s" if seconds else "-"


def test_every_claim_in_a_table_names_its_test() -> None:
    """Each row of a table with the last column `held by` names a test."""
    for table in re.findall(r"^\|[^\n]*\| held by \|\n\|[-| ]+\|\n((?:\|.*\n)+)", _PAGE, re.MULTILINE):
        for row in table.splitlines():
            assert re.search(r"`test_\w+` \|$", row), row


def test_the_causes_are_those_of_the_program() -> None:
    """Each cause is on the page with its symptom, its pauses and what has to be gone."""
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \| (.*) \| (.*) \| (.*) \|$", _PAGE, re.MULTILINE)
    assert rows == [
        (cause.value, rule.symptom, _seconds(rule.first_seconds), _seconds(rule.max_seconds), rule.return_when or "-")
        for cause, rule in RULES.items()
    ]


def test_the_metrics_that_the_page_names_exist() -> None:
    """The metrics of alerts exist too."""
    families = {family.name for family in Metrics().registry.collect()}
    named = {re.sub(r"_(total|bucket)$", "", name) for name in re.findall(r"samerack_\w+", _PAGE)}
    assert len(named) > 5
    assert named - families == set()


def _result(run: str) -> str:
    """The result of a run in the table of runs."""
    (found,) = re.findall(rf"^\| `{re.escape(run)}`: [^|]+ \| ([^|]+) \|$", _PAGE, re.MULTILINE)
    return str(found)


def _document(name: str) -> Any:
    return json.loads((ROOT / "docs" / f"benchmarks-{name}.json").read_text(encoding="utf-8"))


def test_what_faults_cost_is_what_was_measured() -> None:
    """Each figure of the row is the one in the run's document, which has no complaint."""
    told = _document("chaos")
    led, alone = told["with_agents"], told["without"]
    assert told["complaints"] == []
    assert sum(kind["faults"] for kind in told["kinds"]) == 300
    at_rest, rebalancing = (
        max(kind["stop_with"] for kind in told["kinds"] if kind["kind"].startswith(kinds))
        for kinds in (_AT_REST, _IN_A_REBALANCE)
    )
    (without,) = {kind["stop_without"] for kind in told["kinds"] if kind["kind"].startswith(_IN_A_REBALANCE)}
    worst = {max(told["kinds"], key=lambda kind: kind[run] or 0.0)["kind"] for run in ("stop_with", "stop_without")}
    assert worst <= {"broker-killed", "coordinator-killed"}
    assert _result("scripts/chaos --faults 300") == (
        f"of {led['records']:,} records {led['lost']} lost, {led['read_again']} read again below a commit, "
        f"{led['owned_twice']} partitions owned twice; {led['rebalances']} rebalances, each explained; "
        f"longest stop {led['longest_stop']:.1f} s with agents, {alone['longest_stop']:.1f} s without "
        f"(a broker killed); an agent hit at rest costs {at_rest:.1f} s at most, "
        f"in a rebalance {rebalancing:.1f} s at most ({without:.1f} s without an agent)"
    )
