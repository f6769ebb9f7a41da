"""Writes the results of `benchmarks.live` as a page and a plot."""

from __future__ import annotations

import math
from typing import Any, Final

from benchmarks.machine import listed

PAGE: Final = """# Benchmarks: leaders beside Kafka and franz-go

How long a group waits for its leader: from the bytes of JoinGroup to the bytes of SyncGroup. The same groups put to
samerack's agent, to Kafka 4.3's Java client (`CooperativeStickyAssignor`) and to franz-go {franz_version}
(`CooperativeStickyBalancer` with racks), one after the other, with topics, replicas and racks in memory before.

![seconds against partitions](benchmarks-consumers.svg)

{summary}
- {worse}

## A member has left

Cooperative groups on three racks, replication 2.

{usual}

## On real brokers

Groups of librdkafka's consumers whose members are replaced one after the other, as `samerack_join_to_sync_seconds` has
it.

{brokers}

## Large groups with equal subscriptions that a member joins

Those of Kafka's `ClientSideAssignorBenchmark` and of franz-go's `BenchmarkJava`; all {count} groups are in [the
document](benchmarks-consumers.json). Java is given {java_seconds:.0f} seconds for all runs, and not asked for
more partitions of the kind once it took longer.

{table}

Repeat it with Java, Maven and Go: `scripts/bench live`, `scripts/bench live --brokers`,
`scripts/bench live --usual`. Measured on {machine}.
"""

HEAD: Final = "| members | topics by partitions | replicas | ours, ms | franz-go, ms |\n|--:|--:|--:|--:|--:|"
LARGE: Final = 100_000
"""Partitions from which on a group is in the table."""
USUAL_HEAD: Final = (
    "| partitions | topics | members before | whole ms | Java: whole ms | franz-go: whole ms |\n"
    + "|--:|--:|--:|--:|--:|--:|"
)
BROKERS_HEAD: Final = (
    "| members | partitions | plans | JoinGroup to SyncGroup, mean ms | none longer than ms |\n|--:|--:|--:|--:|--:|"
)
COLOURS: Final = {"ours": "#1b7837", "java": "#b2182b", "franz": "#2166ac"}
_RIVALS: Final = ("java", "franz")


def page(results: dict[str, Any]) -> str:
    """Returns the page of one run."""
    cells = results["cells"]
    usual = [cell for cell in cells if cell["history"] == "left"]
    return PAGE.format(
        franz_version=results["franz_version"],
        summary=_summary(cells),
        usual="\n".join([USUAL_HEAD, *map(_usual_row, usual)]),
        brokers="\n".join([BROKERS_HEAD, *map(_brokers_row, results["brokers"])]),
        table="\n".join([HEAD, *map(_row, filter(_is_shown, cells))]),
        count=len(cells),
        java_seconds=results["java_seconds"],
        worse=_worse(cells),
        machine=listed(results["machine"]),
    )


def _summary(cells: list[dict[str, Any]]) -> str:
    lines = []
    for rival, name in (("java", "Kafka's Java"), ("franz", "franz-go")):
        ratios = sorted(cell[rival]["seconds"] / cell["ours"]["seconds"] for cell in cells if cell[rival])
        faster = sum(ratio >= 1 for ratio in ratios)
        middle = ratios[len(ratios) // 2]
        lines.append(
            f"- against {name}: faster in {faster} of {len(ratios)} groups, "
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


def _is_shown(cell: dict[str, Any]) -> bool:
    return cell["total"] >= LARGE and cell["history"] == "joined" and cell["subscriptions"] == "equal"


def _row(cell: dict[str, Any]) -> str:
    ours = cell["ours"]
    cells = [
        f"{cell['members']:,}",
        f"{cell['topics']:,} by {cell['partitions']:,}",
        str(cell["replicas"]),
        _ms(ours, "seconds"),
        _ms(cell["franz"], "seconds"),
    ]
    return f"| {' | '.join(cells)} |"


def _usual_row(cell: dict[str, Any]) -> str:
    cells = [
        f"{cell['total']:,}",
        f"{cell['topics']:,}",
        f"{cell['members']:,}",
        _ms(cell["ours"], "seconds"),
        *(_ms(cell[rival], "seconds") for rival in _RIVALS),
    ]
    return f"| {' | '.join(cells)} |"


def _brokers_row(group: dict[str, Any]) -> str:
    longest = group["at_most_seconds"]
    cells = [
        f"{group['members']:,}",
        f"{group['partitions']:,}",
        f"{group['plans']:,}",
        f"{1000 * group['mean_seconds']:,.1f}",
        f"{1000 * longest:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _ms(measured: dict[str, Any] | None, stage: str) -> str:
    return "-" if measured is None else f"{1000 * measured[stage]:,.1f}"


def plot(results: dict[str, Any]) -> str:
    """Returns a plot of seconds against partitions, both logarithmic, as SVG."""
    cells = results["cells"]
    series: dict[str, list[tuple[float, float]]] = {
        name: [(cell["total"], cell[name]["seconds"]) for cell in cells if cell[name]] for name in ("ours", *_RIVALS)
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
    "ours": "samerack",
    "java": "Kafka's Java",
    "franz": "franz-go",
}
