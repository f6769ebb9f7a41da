"""Pages show what the benchmarks have measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.benchmarks.__main__ import BENCHMARKS
from lab.benchmarks.shared import with_results
from tests.docs import pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_results_on_a_page_are_those_of_the_documents(page: Path) -> None:
    """Each figure between a mark and its end is the one in the benchmark's document."""
    text = page.read_text(encoding="utf-8")
    assert text == with_results(text), "run: scripts/bench pages"


def test_each_benchmark_is_on_a_page() -> None:
    """No benchmark measures what no page shows."""
    shown = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert [name for name in BENCHMARKS if f"<!-- measured by `scripts/bench {name} --" not in shown] == []
