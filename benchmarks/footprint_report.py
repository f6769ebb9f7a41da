"""Writes the section of the page about what an agent costs: memory, starts, pauses and short commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

FOOTPRINT: Final = Path(__file__).parents[1] / "docs" / "benchmarks-footprint.json"
_MIB: Final = 1 << 20

SECTION: Final = """
## What an agent costs

Agents as `samerack run` starts them, on three brokers in three racks (`scripts/bench footprint`). *Memory* is the
proportional set size (PSS) of supervisor and worker together; *private* is what of it no other process shares.

| | measured | of it private | aim |
|---|--:|--:|--:|
{memory}

| | measured | aim |
|---|--:|--:|
{times}

*Ready* is the median of five starts. The pause is how long a consumer owned nothing in an eager group; without the
kill the same rebalance took {pause:.2f} s. A worker killed while the group was at rest led again after {again:.2f} s,
and caused
{rebalances} rebalances.
"""


def footprint_section(found: Mapping[str, Any]) -> str:
    """Returns the section of one run."""
    observer, pause = found.get("observer"), found["pause"]
    sizes = (
        ("standby sidecar", 70, found["standby"]),
        (f"leader of one group of {found['partitions']:,} partitions", 120, found["leader"]),
        ("the same, just after its worker was replaced twice", 120, found["leader_replaced"]),
        *(
            [
                (
                    f"observer of {observer['groups']:,} groups with {observer['partitions']:,} partitions, highest",
                    350,
                    observer["memory"],
                )
            ]
            if observer is not None
            else []
        ),
    )
    times = (
        ("ready after its start, without an election", 1.0, found["ready"]["seconds"]),
        *(
            [("one cycle of the observer, processor time", 10.0, observer["cycle_processor_seconds"])]
            if observer is not None
            else []
        ),
        ("pause of a group whose leader's worker is killed in a rebalance", 0.5, pause["killed_seconds"]),
        *(
            (f"`samerack {name}`, processor time", 0.25 if name == "--help" else 0.35, seconds)
            for name, seconds in found["commands"].items()
        ),
    )
    return SECTION.format(
        memory="\n".join(
            f"| {name} | {size['pss_bytes'] / _MIB:.0f} MiB | {size['anonymous_bytes'] / _MIB:.0f} MiB | {aim} MiB |"
            for name, aim, size in sizes
        ),
        times="\n".join(f"| {name} | {value:.2f} s | {aim:g} s |" for name, aim, value in times),
        pause=pause["seconds"],
        again=pause["leads_again_seconds"],
        rebalances=pause["rebalances_at_rest"],
    )
