"""The results as a page for people: docs/benchmarks.md, from what stands in docs/benchmarks.json.

What must not enter: measuring.
"""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.traffic_report import traffic_section

PAGE: Final = """# Benchmarks

How long a group waits for its plan: between JoinGroup and SyncGroup all members stand still. Measured from the arrays
of a problem to the encoded assignment of every member, in one process on one core at a time.

{table}

- *assign*: which member gets which partition, exact in (balance, cross-rack, moves). *encode*: the bytes that SyncGroup
  carries. *both*: median of {runs} runs, after one that is not counted; *fastest* of them.
- *memory*: the highest resident memory while assigning and encoding, beyond what Python, the libraries and the problem
  itself take ({base} MB in the largest scenario).
- *cross-rack*: partitions that have to be read across racks, out of all; *moved*: partitions that change hands.
- *subscriptions* above 1: as many distinct ones, each of half of the topics, dealt to the members in turn.
- Replica racks and member racks are random. "owns partitions at random" is the hardest case for the flow: every member
  owns partitions of every kind, so there are most classes.

## Repeat it

```
scripts/bench            # all scenarios; writes this page and docs/benchmarks.json
scripts/bench left range # only these; prints their results
```

Scenarios stand in `benchmarks/scenarios.py`.

## Measured on

{machine}
"""

HEAD: Final = (
    "| group | partitions | members | racks, replication | subscriptions | assign ms | encode ms | both ms "
    "| fastest ms | memory MB | cross-rack | moved |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def machine() -> dict[str, str]:
    """What was measured on."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return {
        "processor": model[1] if model else platform.processor() or platform.machine(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "ortools": version("ortools"),
    }


def page(results: dict[str, Any]) -> str:
    """The page of one run."""
    measured = results["scenarios"]
    rows = [_row(scenario, measured[scenario.name]) for scenario in SCENARIOS if scenario.name in measured]
    base = max(measurement["problem_bytes"] for measurement in measured.values())
    return PAGE.format(
        table="\n".join([HEAD, *rows]),
        runs=results["runs"],
        base=_megabytes(base),
        machine=_listed(results["machine"]),
    ) + (traffic_section(results["traffic"]) if "traffic" in results else "")


def _listed(machine: dict[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in machine.items())


def _row(scenario: Scenario, found: dict[str, Any]) -> str:
    shape = scenario.shape
    seconds = (found[f"{stage}_seconds"] for stage in ("assign", "encode", "total", "fastest"))
    cells = [
        scenario.about,
        f"{shape.partitions:,}",
        f"{shape.members:,}",
        f"{shape.racks}, {shape.replication}",
        f"{shape.subscriptions:,}",
        *(f"{1000 * value:,.1f}" for value in seconds),
        _megabytes(found["peak_bytes"] - found["problem_bytes"]),
        f"{found['cost']['cross_rack']:,}",
        f"{found['cost']['moved']:,}",
    ]
    return f"| {' | '.join(cells)} |"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f}"
