"""docs/takeover.md contains the results of scripts/takeovers, and each of them is good."""

from __future__ import annotations

import json
from typing import Any

from sandbox.takeovers import Row
from tests.docs import ROOT

_NAMES = {"java": "Java", "confluent": "librdkafka", "kafka-python": "kafka-python", "aiokafka": "aiokafka"}


def _rows() -> list[Row]:
    told = json.loads((ROOT / "docs" / "benchmarks-takeovers.json").read_text("utf-8"))
    rows: list[dict[str, Any]] = told["rows"]
    return [Row(**{**row, "reasons": tuple(row["reasons"]), "findings": tuple(row["findings"])}) for row in rows]


def test_every_takeover_of_the_page_was_clean() -> None:
    """Three sizes on three clients, twenty tries each: the agent led within the time limit, and nothing was lost."""
    rows = _rows()
    assert {(row.client, row.members) for row in rows} >= {
        (client, members) for client in ("java", "confluent", "kafka-python") for members in (3, 10, 30)
    }
    assert all(row.is_good and row.tries >= 20 for row in rows)


def test_the_pauses_of_the_page_are_those_of_the_runs_document() -> None:
    """The page has a row for each group, in the order of the document."""
    page = (ROOT / "docs" / "takeover.md").read_text("utf-8")
    wanted = "".join(
        f"| {row.members} on {_NAMES[row.client]} | {row.led} of {row.tries} | {row.median_pause_seconds:.2f} s "
        f"| {row.longest_pause_seconds:.2f} s | {row.ordinary_pause_seconds:.2f} s | {row.held_seconds:.2f} s |\n"
        for row in _rows()
    )
    assert wanted in page
