"""Writes the what-if's figures as a section of docs/benchmarks-pipeline.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_SECTION: Final = """
## What if

States of a simulated fleet as JSON lines, every group with {partitions} partitions and {members} members, put to all
scenarios of `samerack pipeline whatif`: read, worked out, priced and ranked at `local[{cores}]`.

| groups | scenarios | groups/s | working out s | ranking s | all in all s | processor s | peak memory MB |
|--:|--:|--:|--:|--:|--:|--:|--:|
{rows}

- *working out*: from the file to every scenario of every group; *ranking*: from there to the tables that are shown;
  *all in all*: with Spark's start and end.
- *processor*: time of all processes on all cores; where it is far below cores times *all in all*, the machine had other
  work.
- *memory*: Python and Java together, at most; Java's heap as Spark sets it (1 GB).

Repeat it: `scripts/bench pipeline whatif` (two minutes).

Measured on:

{machine}
"""


def section(found: Mapping[str, Any]) -> str:
    """Returns the section with the measured figures."""
    return _SECTION.format(
        **{
            **found,
            "rows": "\n".join(map(_row, found["fleets"])),
            "machine": "\n".join(f"- {name}: {value}" for name, value in found["machine"].items()),
        }
    )


def _row(fleet: Mapping[str, Any]) -> str:
    cells = [
        f"{fleet['groups']:,}",
        f"{fleet['scenarios']:,}",
        f"{fleet['groups_per_second']:,.0f}",
        f"{fleet['working_seconds']:.0f}",
        f"{fleet['ranking_seconds']:.0f}",
        f"{fleet['seconds']:.0f}",
        f"{fleet['cpu_seconds']:.0f}",
        f"{fleet['peak_bytes'] / 1e6:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"
