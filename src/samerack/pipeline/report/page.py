"""Writes the report as one HTML file: no script, no external resources; for light, dark, narrow screens and print.

The template escapes everything that comes from records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from samerack.common import words
from samerack.common.money import SECONDS_PER_MONTH
from samerack.pipeline.report import plots
from samerack.pipeline.report.fleet_report import FleetReport, Pair

_HEATS: Final = 6
_MAX_RACKS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMapCell:
    """One cell of the heat map; `kind` is near, across or unknown, `heat` from 0 (nothing) to 5 (the most)."""

    bytes: int
    dollars: float
    kind: str
    heat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Rows of client racks by columns of replica racks; "" is unknown. `left_out`: racks that did not fit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatMapCell, ...]], ...]
    left_out: int


def heat_map(pairs: Sequence[Pair], scale: float) -> HeatMap:
    """Return the heat map of the racks that read or serve most, in order of name, the unknown rack last.

    `scale` is the factor from dollars of the period to a month.
    """
    weight: dict[str, int] = {}
    for pair in pairs:
        for rack in {pair.client_rack, pair.replica_rack} - {""}:
            weight[rack] = weight.get(rack, 0) + pair.bytes
    chosen = sorted(sorted(weight, key=lambda rack: (-weight[rack], rack))[:_MAX_RACKS])
    found = {(pair.client_rack, pair.replica_rack): pair for pair in pairs}
    columns = (*chosen, *([""] if any(replica == "" for _, replica in found) else []))
    names = (*chosen, *([""] if any(client == "" for client, _ in found) else []))
    most = max((pair.bytes for pair in pairs if pair.client_rack and pair.replica_rack), default=0)

    def cell(client: str, replica: str) -> HeatMapCell:
        pair = found.get((client, replica))
        read = pair.bytes if pair is not None else 0
        return HeatMapCell(
            bytes=read,
            dollars=pair.dollars * scale if pair is not None else 0.0,
            kind="unknown" if not client or not replica else "near" if client == replica else "across",
            heat=-(-read * (_HEATS - 1) // most) if most and client and replica else 0,
        )

    rows = tuple((client, tuple(cell(client, replica) for replica in columns)) for client in names)
    return HeatMap(columns=columns, rows=rows, left_out=len(weight) - len(chosen))


def _lasting(seconds: float) -> str:
    days = seconds / 86400
    return f"{days:.4g} days" if days >= 2 else words.span(seconds)


def _environment() -> Environment:
    made = words.page_environment("pipeline")
    made.filters["span"] = _lasting
    made.filters["number"] = lambda count: f"{count:,}"
    made.filters["minute"] = lambda moment: f"{moment:%Y-%m-%d %H:%M}"
    made.filters["drawn"] = Markup  # matplotlib has escaped the names in its drawings
    return made


def page(report: FleetReport) -> str:
    """Return the whole file."""
    scale = SECONDS_PER_MONTH / report.period.seconds
    month = report.headline.month
    level = month.spent + month.saved if month.saved else None
    return (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            heat=heat_map(report.pairs, scale),
            time=plots.cost_over_time(report.timeline, report.unit, level),
            top=plots.top_groups(report.groups),
            saved=plots.saved_and_possible(report.savers) if report.savers else None,
        )
    )
