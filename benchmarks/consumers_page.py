"""Writes the results of `benchmarks.consumers` as a page and a plot."""

from __future__ import annotations

import math
from typing import Any, Final

PAGE: Final = """# Benchmarks: consumers beside Kafka and franz-go

The same groups put to samerack's `cooperative-sticky`, to Kafka 4.3's `CooperativeStickyAssignor` (Java) and to the
sticky balancer of franz-go {franz_version} (Go), in one run, one after the other; the machine also did other work.

![seconds against partitions](benchmarks-consumers.svg)

{summary}

## The groups

Those of Kafka's own benchmark (`ClientSideAssignorBenchmark`), sampled: 100, 1,000 and 10,000 members; 5 and 50
partitions per member with 10 and 1,000 topics, and 10 with 100 topics; at least one partition a topic; equal
subscriptions or five disjoint ones; fresh, or joined by one member. Three racks, one replica; the middle also without
racks. Then the sizes of franz-go's `BenchmarkJava`, and 1,000,000 partitions for 2,000 members with equal
subscriptions, five, and 2,000 different ones of half of the topics each.

Not sampled: 500 and 5,000 members, replication above 1 (franz-go looks at leaders' racks only).

{table}

- *plan*: from arrays to the owner of each partition; *names*: from names to these arrays, which the others do within
  their time; *bytes*: from the plan to what SyncGroup carries, which the others do not do here.
- Medians of the later half of 9 runs (3 from 200,000 partitions on). Java is given {java_seconds:.0f} seconds for all
  runs (and 10 more for each million partitions), and is not asked for more partitions of the kind (equal or unequal
  subscriptions) once it took longer: "-".
- *cross-rack, moved*: ours; {worse}

franz-go's own `BenchmarkJava/.../rack`, in the same run: {own}.

## Repeat it

    scripts/bench consumers   # needs Java, Maven, Go and about ten minutes

## Measured on

{machine}
"""

HEAD: Final = (
    "| members | topics by partitions | subscriptions | history | racks | ours: plan ms | ours: names ms "
    "| ours: bytes ms | Java ms | franz-go ms | cross-rack | moved |\n|--:|--:|---|---|:-:|--:|--:|--:|--:|--:|--:|--:|"
)
COLOURS: Final = {"ours": "#1b7837", "ours with names": "#7fbf7b", "java": "#b2182b", "franz": "#2166ac"}


def page(results: dict[str, Any]) -> str:
    """Returns the page of one run."""
    cells = results["cells"]
    return PAGE.format(
        franz_version=results["franz_version"],
        summary=_summary(cells),
        table="\n".join([HEAD, *map(_row, cells)]),
        java_seconds=results["java_seconds"],
        worse=_worse(cells),
        own=", ".join(f"{name} {nanos / 1e6:,.1f} ms" for name, nanos in results["franz_own"].items()),
        machine="\n".join(f"- {name}: {value}" for name, value in results["machine"].items()),
    )


def _summary(cells: list[dict[str, Any]]) -> str:
    lines = []
    for rival, name in (("java", "Kafka's Java"), ("franz", "franz-go")):
        both = [cell for cell in cells if cell[rival]]
        for label, ours in (("plan", _plan), ("names and plan", _whole)):
            ratios = sorted(cell[rival]["seconds"] / ours(cell) for cell in both)
            faster = sum(ratio >= 1 for ratio in ratios)
            middle = ratios[len(ratios) // 2]
            lines.append(
                f"- {label} against {name}: faster in {faster} of {len(ratios)} groups, "
                f"{middle:,.1f} times as fast in the median ({ratios[0]:,.2f} to {ratios[-1]:,.0f})"
            )
    silent = sum(cell["java"] is None for cell in cells)
    return "\n".join([*lines, f"- Java took too long, or was not asked any more, in {silent} of {len(cells)} groups"])


def _worse(cells: list[dict[str, Any]]) -> str:
    """Returns a sentence that compares the costs of the others' plans with ours."""
    found = []
    for rival, name in (("java", "Java's"), ("franz", "franz-go's")):
        both = [(_rank(cell["ours"]), _rank(cell[rival])) for cell in cells if cell[rival] and cell[rival]["cost"]]
        better = sum(mine < theirs for mine, theirs in both)
        worse = sum(mine > theirs for mine, theirs in both)
        found.append(f"{name} plans cost more in {better} and less in {worse} of {len(both)} groups")
    return "; ".join(found) + " (balance, then cross-rack, then moves; plans that withhold are not compared)."


def _rank(measured: dict[str, Any]) -> tuple[int, int, int]:
    cost = measured["cost"]
    return cost["sum_of_squares"], cost["cross_rack"], cost["moved"]


def _plan(cell: dict[str, Any]) -> float:
    return float(cell["ours"]["seconds"])


def _whole(cell: dict[str, Any]) -> float:
    return float(cell["ours"]["seconds"] + cell["ours"]["build"])


def _row(cell: dict[str, Any]) -> str:
    ours = cell["ours"]
    cells = [
        f"{cell['members']:,}",
        f"{cell['topics']:,} by {cell['partitions']:,}",
        cell["subscriptions"],
        "joined" if cell["joining"] else "fresh",
        "3" if cell["racks"] else "-",
        *(f"{1000 * ours[stage]:,.1f}" for stage in ("seconds", "build", "encode")),
        *(f"{1000 * cell[rival]['seconds']:,.1f}" if cell[rival] else "-" for rival in ("java", "franz")),
        f"{ours['cost']['cross_rack']:,}",
        f"{ours['cost']['moved']:,}",
    ]
    return f"| {' | '.join(cells)} |"


def plot(results: dict[str, Any]) -> str:
    """Returns a plot of seconds against partitions, both logarithmic, as SVG."""
    cells = results["cells"]
    series: dict[str, list[tuple[float, float]]] = {
        "ours": [(cell["total"], _plan(cell)) for cell in cells],
        "ours with names": [(cell["total"], _whole(cell)) for cell in cells],
        **{
            rival: [(cell["total"], cell[rival]["seconds"]) for cell in cells if cell[rival]]
            for rival in ("java", "franz")
        },
    }
    points = [point for some in series.values() for point in some]
    left, bottom = (math.floor(math.log10(min(point[axis] for point in points))) for axis in (0, 1))
    right, top = (math.ceil(math.log10(max(point[axis] for point in points))) for axis in (0, 1))

    def x(value: float) -> float:
        return 70 + 600 * (math.log10(value) - left) / (right - left)

    def y(value: float) -> float:
        return 380 - 340 * (math.log10(value) - bottom) / (top - bottom)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 430" font-family="sans-serif" font-size="12">',
        '<rect width="860" height="430" fill="white"/>',
    ]
    for power in range(left, right + 1):
        parts.append(f'<path d="M{x(10**power):.0f} 40V380" stroke="#ddd"/>')
        parts.append(f'<text x="{x(10**power):.0f}" y="398" text-anchor="middle">{10**power:,}</text>')
    for power in range(bottom, top + 1):
        parts.append(f'<path d="M70 {y(10**power):.0f}H670" stroke="#ddd"/>')
        label = f"{10**power:g} s" if power >= 0 else f"{10 ** (power + 3):g} ms"
        parts.append(f'<text x="64" y="{y(10**power) + 4:.0f}" text-anchor="end">{label}</text>')
    parts.append('<text x="370" y="420" text-anchor="middle">partitions</text>')
    for row, (name, some) in enumerate(series.items()):
        parts.append(f'<circle cx="690" cy="{60 + 22 * row}" r="5" fill="{COLOURS[name]}"/>')
        parts.append(f'<text x="702" y="{64 + 22 * row}">{LABELS[name]}</text>')
        parts += [
            f'<circle cx="{x(count):.1f}" cy="{y(seconds):.1f}" r="3.5" fill="{COLOURS[name]}" fill-opacity="0.7"/>'
            for count, seconds in some
        ]
    return "\n".join([*parts, "</svg>\n"])


LABELS: Final = {
    "ours": "samerack, plan",
    "ours with names": "samerack, names and plan",
    "java": "Kafka's Java",
    "franz": "franz-go",
}
