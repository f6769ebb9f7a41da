"""Writes the section of the page about the accuracy and cost of the agent's measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

SECTION: Final = """
## Measuring traffic

{seconds:.0f} s live on three brokers in three racks: seven groups of two librdkafka consumers, with record sizes of
100 bytes to 5 kB, and a compacted topic (`scripts/bench traffic`). *Truth*: bytes that the kernel received.
*Estimated*: the agent alone. *Exact*: applications post their statistics.

{table}

A poll of {groups:,} groups that read {partitions:,} partitions of three brokers took {cycles} s, of processor time
{processor} s, and {peak:,.0f} MiB, of which Python and the libraries take {base:,.0f}.
"""


def traffic_section(results: Mapping[str, Any]) -> str:
    """Returns the section of one run."""
    scale = results["scale"]
    cycles = scale["cycle_seconds"]
    return SECTION.format(
        seconds=results["accuracy"]["seconds"],
        table=table(results["accuracy"]),
        groups=scale["groups"],
        partitions=scale["partitions"],
        cycles=_span(cycles),
        processor=_span(scale["processor_seconds"]),
        peak=scale["peak_bytes"] / 2**20,
        base=scale["base_bytes"] / 2**20,
    )


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"


def table(results: Mapping[str, Any]) -> str:
    """Returns the truth and the errors of both methods as a Markdown table."""
    head = (
        "| group (codec, replication) | MB | estimated | exact | across racks, MB | estimated | exact |\n"
        "|---|--:|--:|--:|--:|--:|--:|"
    )
    rows = [head]
    for name, one in results["groups"].items():
        cells = [name]
        for part in ("", "_cross"):
            truth = one[f"truth{part}"]
            cells.append(f"{truth / 1e6:.2f}")
            for method in ("estimated", "exact"):
                value = one[f"{method}{part}"]
                cells.append(f"{value / truth - 1:+.1%}" if truth else "-")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
