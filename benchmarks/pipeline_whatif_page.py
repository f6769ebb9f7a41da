"""Writes the what-if's figures as a section of docs/benchmarks-pipeline.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_SECTION: Final = """
## What if

States of a simulated fleet as JSON lines, every group with {partitions} partitions and {members} members, put to all
scenarios of `samerack pipeline whatif`: read, worked out, priced and ranked at `local[{cores}]`.

| groups | scenarios | groups/s | all in all s | processor s | peak memory MB |
|--:|--:|--:|--:|--:|--:|
{rows}

Repeat it: `scripts/bench pipeline whatif`.
"""


def section(found: Mapping[str, Any]) -> str:
    """Returns the section with the measured figures."""
    return _SECTION.format(
        **{
            **found,
            "rows": "\n".join(map(_row, found["fleets"])),
        }
    )


def _row(fleet: Mapping[str, Any]) -> str:
    cells = [
        f"{fleet['groups']:,}",
        f"{fleet['scenarios']:,}",
        f"{fleet['groups_per_second']:,.0f}",
        f"{fleet['seconds']:.0f}",
        f"{fleet['cpu_seconds']:.0f}",
        f"{fleet['peak_bytes'] / 1e6:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"
