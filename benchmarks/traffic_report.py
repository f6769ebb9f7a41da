"""Writes the section of the page about the accuracy and cost of the agent's measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SECTION: Final = """
# Measuring traffic

## How near to the truth

{seconds:.0f} s live on three brokers in three racks (Kafka 4.3, JVM processes on loopback): seven groups of two
librdkafka consumers, with record sizes changing every ten seconds (100 bytes to 5 kB), each codec with replication 1
and 2, and a compacted topic whose cleaner runs meanwhile. *truth*: bytes that the kernel received on the sockets of
each consumer's process, by broker. *estimated*: the agent alone, from offsets and log sizes. *exact*: the applications
post their statistics. Consumers commit every five seconds, the agent looks every five.

{table}

## What one cycle costs

A look at {groups:,} groups that read {partitions:,} partitions of three real brokers, each group with a member, an
assignment and committed offsets that moved since the last look, in a process of its own:

| look | {heads} |
|---|{lines}
| seconds | {cycles} |
| processor seconds | {processor} |

Highest resident memory of the whole process: {peak:,.0f} MiB, of which Python and the libraries take {base:,.0f} before
the first look. The first look also asks for topic configurations, and best shares are worked out for all groups.

## Repeat it

```
scripts/bench traffic    # four minutes; writes this section
```

## Measured on

{machine}
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
        heads=" | ".join(str(number + 1) for number in range(len(cycles))),
        lines="--:|" * len(cycles),
        cycles=" | ".join(f"{value:.1f}" for value in cycles),
        processor=" | ".join(f"{value:.1f}" for value in scale["processor_seconds"]),
        peak=scale["peak_bytes"] / 2**20,
        base=scale["base_bytes"] / 2**20,
        machine="\n".join(f"- {name}: {value}" for name, value in results["machine"].items()),
    )


def table(results: Mapping[str, Any]) -> str:
    """Returns truth, estimate and error as a Markdown table."""
    head = (
        "| group (codec, replication) | truth MB | estimated | error | exact | error "
        "| across racks: truth MB | estimated | error | exact | error |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    rows = [head]
    for name, one in results["groups"].items():
        cells = [name]
        for part in ("", "_cross"):
            truth = one[f"truth{part}"]
            cells.append(f"{truth / 1e6:.2f}")
            for method in ("estimated", "exact"):
                value = one[f"{method}{part}"]
                cells += [f"{value / 1e6:.2f}", f"{value / truth - 1:+.1%}" if truth else "-"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
