"""docs/streams.md has the rebalances of Kafka Streams as they were measured."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.rebalance import table

_DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_has_the_measured_rebalances() -> None:
    """Its table is made from the measurement's results."""
    results = json.loads((_DOCS / "benchmarks-rebalance.json").read_text(encoding="utf-8"))
    assert table(results) in (_DOCS / "streams.md").read_text(encoding="utf-8")


def test_rebalances_by_samerack_are_shorter_and_need_no_fall_back() -> None:
    """Beside Kafka's own assignor, for each number of instances that were measured."""
    rows = json.loads((_DOCS / "benchmarks-rebalance.json").read_text(encoding="utf-8"))["rows"]
    for kafka, samerack in zip(rows[::2], rows[1::2], strict=True):
        assert (kafka["planner"], samerack["planner"]) == ("kafka", "samerack")
        assert samerack["longest_rebalance_ms"] < (kafka["longest_rebalance_ms"] or float("inf"))
        assert samerack["fallbacks"] == 0
