"""Writes the report's figures as a section of docs/benchmarks-pipeline.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_SECTION: Final = """
## The report

`samerack pipeline report --tables FOLDER --format parquet` of {groups:,} simulated groups over {days} days:
{samples:,} rows of traffic, {states:,} states, at `local[{cores}]` with a heap of {heap}. Aim: {aim_seconds} s.
{verdict}

Seconds: {rows}.
*asking*: the own assignor and the best plan for each group and day. Processor time: {programs}. Memory: {peak:,.0f} MB
at most; the page has {page:,.0f} kB. Repeat it: `scripts/bench pipeline report`.
"""


def section(found: Mapping[str, Any]) -> str:
    """Returns the section with the measured figures."""
    by_program = sorted(found["cpu_seconds_by_program"].items(), key=lambda one: -one[1])
    steps = {**found["steps"], "all in all": found["seconds"]}
    return _SECTION.format(
        **{
            **found,
            "verdict": "Met." if found["seconds"] <= found["aim_seconds"] else "Not met.",
            "rows": ", ".join(f"{step} {seconds:.0f}" for step, seconds in steps.items()),
            "programs": ", ".join(f"{name} {seconds:.0f} s" for name, seconds in by_program if seconds >= 1),
            "peak": found["peak_bytes"] / 1e6,
            "page": found["page_bytes"] / 1e3,
        }
    )
