"""Writes docs/benchmarks.md from the results in docs/benchmarks.json."""

from __future__ import annotations

import json
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks.footprint_report import FOOTPRINT, footprint_section
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.traffic_report import traffic_section

PAGE: Final = """# Benchmarks

How long a group waits for its plan: between JoinGroup and SyncGroup all members stand still. Measured from the arrays
of a problem to the encoded assignment of every member, in one process on one core at a time.

Beside others: [leaders from bytes to bytes, against Kafka's Java and franz-go](benchmarks-consumers.md).

{table}

- *assign*: which member gets which partition, exact in (balance, cross-rack, moves). *encode*: the bytes that SyncGroup
  carries. *both*: median of {runs} runs, after one that is not counted; *fastest* of them.
- *memory*: the highest resident memory while assigning and encoding, beyond what Python, the libraries and the problem
  itself take ({base} MB in the largest scenario).
- *cross-rack*: partitions that have to be read across racks, out of all; *moved*: partitions that change hands.
- *subscriptions* above 1: as many distinct ones, each of half of the topics, dealt to the members in turn.
- Replica racks and member racks are random. "owns partitions at random" is the hardest case for the flow: every member
  owns partitions of every kind, so there are most classes.

{parity}
## Repeat it

```
scripts/bench            # all scenarios; writes this page and docs/benchmarks.json
scripts/bench left range # only these; prints their results
```

Scenarios stand in `benchmarks/scenarios.py`.

## Measured on

{machine}
"""

PARITY: Final = Path(__file__).parents[1] / "docs" / "benchmarks-parity.json"
AGAINST_KAFKA: Final = """
## Against Kafka's plans

{cases:,} random groups (even and skewed racks, missing racks, unequal subscriptions, members that leave or join, static
members, co-partitioned topics) put to Kafka 4.3's own assignors and to ours of the same name:

| assignor | different | worse | better: balance | cross-rack | moves | all | spread better | worse | not comparable |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
{rows}

*Different*: some member gets another partition. *Worse* and *better* by (balance, cross-rack, moves), in this order.
*Spread* of topics where these are equal: better where the largest number of a topic's partitions on one member is less.
*Not comparable*: Kafka's sticky assignors give partitions to members that do not subscribe to their topics when a
member without topics comes first in the order of its `HashMap`; such a plan is none. `scripts/bench parity` counts
anew.

With four topics of equal size at replication 1 on three racks Kafka's `range` reads about 64 % across racks,
`range-optimal` about 41 %, which is the least that keeps co-partitioned topics together; `sticky`, which does not,
reads 1 %.

### Over the lives of groups

{histories} random histories of 20 steps: a member joins, leaves, all restart one after the other, or replicas move. Of
{plans} plans of `sticky`, each compared with Kafka's for the same group as our plans had left it:

| better in (balance, cross-rack, moves) | worse | equal, lumpier | better, lumpier | not comparable |
|--:|--:|--:|--:|--:|
| {better} | {worse} | {equal_lumpier} | {better_lumpier} | {not_comparable} |

*Lumpier*: some member has more of a topic than any has with Kafka's.

The same histories, each assignor as its own plans had left the group:

| | `sticky` | Kafka's |
|---|--:|--:|
| plans in which a member has more of a topic than any has with the other | {ever_lumpier} | {ever_less_lumpy} |
| partitions moved | {moves} | {kafkas_moves} |
| partitions read across racks, over all plans | {cross_rack} | {kafkas_cross_rack} |
"""

HEAD: Final = (
    "| group | partitions | members | racks, replication | subscriptions | assign ms | encode ms | both ms "
    "| fastest ms | memory MB | cross-rack | moved |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def machine() -> dict[str, str]:
    """Returns a description of this machine."""
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


def parity() -> str:
    """Returns the section that compares with Kafka's plans; empty where no comparison was written."""
    if not PARITY.exists():
        return ""
    found = json.loads(PARITY.read_text())
    rows = [
        f"| `{name}` | {found[name]['different']:,} | - | - | - | - | - | - | - | 0 |"
        for name in ("range", "roundrobin")
    ]
    for name in ("sticky", "cooperative-sticky"):
        counts = found[name]
        better = [counts[level] for level in ("balance", "cross-rack", "moves")]
        share = sum(better) / (found["cases"] - counts["not comparable"])
        cells = [f"{count:,}" for count in (counts["worse"], *better)]
        spread = [f"{counts[outcome]:,}" for outcome in ("spread better", "spread worse")]
        rows.append(
            f"| `{name}` | - | {' | '.join(cells)} | {share:.1%} | {' | '.join(spread)} "
            f"| {counts['not comparable']:,} |"
        )
    histories = {name: f"{count:,}" for name, count in found["histories"].items()}
    return AGAINST_KAFKA.format(cases=found["cases"], rows="\n".join(rows), **histories)


def page(results: dict[str, Any]) -> str:
    """Returns the page of one run."""
    measured = results["scenarios"]
    rows = [_row(scenario, measured[scenario.name]) for scenario in SCENARIOS if scenario.name in measured]
    base = max(measurement["problem_bytes"] for measurement in measured.values())
    return PAGE.format(
        table="\n".join([HEAD, *rows]),
        runs=results["runs"],
        parity=parity(),
        base=_megabytes(base),
        machine=_listed(results["machine"]),
    ) + (
        (traffic_section(results["traffic"]) if "traffic" in results else "")
        + (footprint_section(json.loads(FOOTPRINT.read_text(encoding="utf-8"))) if FOOTPRINT.exists() else "")
    )


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
