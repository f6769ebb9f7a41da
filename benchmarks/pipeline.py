"""`scripts/bench pipeline [PART...]`: measures the parts of the fleet pipeline and writes docs/benchmarks-pipeline.md.

A part that is not measured keeps the figures of its last run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import pipeline_page, pipeline_report, pipeline_stream, pipeline_whatif
from benchmarks.report import machine

DOCS: Final = Path(__file__).parents[1] / "docs"
RESULTS: Final = DOCS / "benchmarks-pipeline.json"
PARTS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "stream": pipeline_stream.measure,
    "report": pipeline_report.measure,
    "whatif": pipeline_whatif.measure,
}


def main(parts: list[str]) -> int:
    """Measure the named parts, or all."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        sys.stderr.write(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}\n")
        return 2
    for part in parts or PARTS:
        found = {**PARTS[part](), "machine": machine()}
        # read after the measurement: another process may have written another part meanwhile
        results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results[part] = found
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
        (DOCS / "benchmarks-pipeline.md").write_text(pipeline_page.page(results))
    return 0
