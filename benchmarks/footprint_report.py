"""Writes the section of the page about what an agent costs: memory, starts, pauses and short commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

FOOTPRINT: Final = Path(__file__).parents[1] / "docs" / "benchmarks-footprint.json"
_MIB: Final = 1 << 20
_IMPORTS: Final = 10
"""How many packages the table of imports has."""

SECTION: Final = """
# What an agent costs

Agents as `samerack run` starts them, on three brokers in three racks (Kafka 4.3, JVM processes on loopback).
*Memory* is the proportional set size (PSS) of supervisor and worker together, half a minute after their start: pages
that processes share count in parts, so a second agent on the host adds less than the first. *Private* is what of it is
in no file, and shared with no other agent.

| | aim | measured | of it private | met |
|---|--:|--:|--:|---|
{memory}

| | aim | measured | met |
|---|--:|--:|---|
{times}

An agent takes {alone_cpu:.2f} s of processor until it is ready, a standby {standby_cpu:.2f} s. The pause is how long
a consumer owned nothing, with an eager protocol, while a third consumer joined and the worker was killed as the first
one stopped; without the kill the same rebalance took {pause:.2f} s. A worker killed while the group was at rest led
again after {again:.2f} s, and caused {rebalances} rebalances.{observed}

What the agent's first process imports, by what Python allocates for it; {whole:.0f} MiB in all, which workers share:

| package | MiB |
|---|--:|
{imports}

## Repeat it

```
scripts/bench footprint    # six minutes; writes this section and docs/benchmarks-footprint.json
```

## Measured on

{machine}
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
            f"| {name} | {aim} MiB | {size['pss_bytes'] / _MIB:.0f} MiB | {size['anonymous_bytes'] / _MIB:.0f} MiB "
            f"| {_met(size['pss_bytes'] / _MIB, aim)} |"
            for name, aim, size in sizes
        ),
        times="\n".join(f"| {name} | {aim:g} s | {value:.2f} s | {_met(value, aim)} |" for name, aim, value in times),
        alone_cpu=found["ready"]["processor_seconds"],
        standby_cpu=found["standby_ready"]["processor_seconds"],
        pause=pause["seconds"],
        again=pause["leads_again_seconds"],
        rebalances=pause["rebalances_at_rest"],
        observed=f" The observer's groups read {observer['distinct_partitions']:,} partitions, each in ten groups."
        if observer is not None
        else "",
        whole=sum(found["imports"].values()) / _MIB,
        imports="\n".join(
            f"| {name} | {size / _MIB:.1f} |" for name, size in list(found["imports"].items())[:_IMPORTS]
        ),
        machine="\n".join(f"- {name}: {value}" for name, value in found["machine"].items()),
    )


def _met(value: float, aim: float) -> str:
    return "yes" if value <= aim else "no"
