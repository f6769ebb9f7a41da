"""The benchmarks page says of an agent's footprint what was measured."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.footprint_report import footprint_section

_ROOT = Path(__file__).parents[3]


def test_the_footprint_on_the_page_is_what_was_measured() -> None:
    """The section is the one that is written from the run's document."""
    found = json.loads((_ROOT / "docs" / "benchmarks-footprint.json").read_text(encoding="utf-8"))
    assert footprint_section(found) in (_ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
