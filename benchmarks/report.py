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
from benchmarks.machine import listed
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.traffic_report import traffic_section

PAGE: Final = """# Benchmarks

How long a group waits for its plan: from the arrays of a problem to the encoded assignment of every member, in one
process on one core. From bytes to bytes, beside others: [leaders](benchmarks-consumers.md). Measured on {machine}.

{table}

Exact in (balance, cross-rack, moves), with the bytes of SyncGroup; the median of {runs} runs. *Subscriptions* are of
half of the topics each; racks are random.

Repeat it: `scripts/bench`, or `scripts/bench NAME` for scenarios of `benchmarks/scenarios.py`.
{parity}"""

PARITY: Final = Path(__file__).parents[1] / "docs" / "benchmarks-parity.json"
AGAINST_KAFKA: Final = """
## Against Kafka's plans

{cases:,} random groups put to Kafka 4.3's own assignors and to ours of the same name (`scripts/bench parity`):

| assignor | worse | better: balance | cross-rack | moves | all | spread better | worse | not comparable |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
{rows}

Plans of `range` and `roundrobin` differ in {different}. *Better* and *worse* by (balance, cross-rack, moves);
*spread*: the largest number of a topic's partitions on one member; *not comparable*: Kafka's plan had owners without
subscription.

Over {histories} random histories of 20 steps each of {plans} plans of `sticky`, beside Kafka's for the same group, is
better in {better} cases and worse in {worse} ({not_comparable} not comparable). Each as its own plans had left the
group, `sticky` moved {moves} partitions and Kafka's {kafkas_moves}, and read {cross_rack} and {kafkas_cross_rack}
across racks; a member had more of a topic than any with the other in {ever_lumpier} and {ever_less_lumpy} plans.
"""

HEAD: Final = (
    "| group | partitions | members | subscriptions | ms | cross-rack | moved |\n|---|--:|--:|--:|--:|--:|--:|"
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
    different = sum(found[name]["different"] for name in ("range", "roundrobin"))
    rows = []
    for name in ("sticky", "cooperative-sticky"):
        counts = found[name]
        better = [counts[level] for level in ("balance", "cross-rack", "moves")]
        share = sum(better) / (found["cases"] - counts["not comparable"])
        cells = [f"{count:,}" for count in (counts["worse"], *better)]
        spread = [f"{counts[outcome]:,}" for outcome in ("spread better", "spread worse")]
        rows.append(
            f"| `{name}` | {' | '.join(cells)} | {share:.1%} | {' | '.join(spread)} | {counts['not comparable']:,} |"
        )
    histories = {name: f"{count:,}" for name, count in found["histories"].items()}
    return AGAINST_KAFKA.format(cases=found["cases"], different=different, rows="\n".join(rows), **histories)


def page(results: dict[str, Any]) -> str:
    """Returns the page of one run."""
    measured = results["scenarios"]
    rows = [_row(scenario, measured[scenario.name]) for scenario in SCENARIOS if scenario.name in measured]
    return PAGE.format(
        table="\n".join([HEAD, *rows]),
        runs=results["runs"],
        parity=parity(),
        machine=listed(results["machine"]),
    ) + (
        (traffic_section(results["traffic"]) if "traffic" in results else "")
        + (footprint_section(json.loads(FOOTPRINT.read_text(encoding="utf-8"))) if FOOTPRINT.exists() else "")
    )


def _row(scenario: Scenario, found: dict[str, Any]) -> str:
    shape = scenario.shape
    cells = [
        scenario.about,
        f"{shape.partitions:,}",
        f"{shape.members:,}",
        f"{shape.subscriptions:,}",
        f"{1000 * found['total_seconds']:,.1f}",
        f"{found['cost']['cross_rack']:,}",
        f"{found['cost']['moved']:,}",
    ]
    return f"| {' | '.join(cells)} |"
