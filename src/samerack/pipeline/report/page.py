"""Writes the report: as one HTML file, and its tables as CSV or Parquet.

The file has no script and no external resources, and is for light, dark, narrow screens and print. The template escapes
everything that comes from records. Plots are SVG with real text, one for wide and one for narrow screens. Their colours
are the page's CSS variables, so that light, dark and print use the same drawings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import matplotlib as mpl
import pyarrow as pa
from jinja2 import Environment
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator
from pyarrow import csv, parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common import words
from samerack.common.errors import AgentError
from samerack.common.money import SECONDS_PER_MONTH
from samerack.pipeline.report.fleet_report import FleetReport, GroupLine, Moment, Pair

_HEATS: Final = 6
_ALL: Final = 0.995
"""So large a part of the bytes stands for all of them."""
_MAX_RACKS: Final = 12

_TEXT, _SOFT, _LINE, _ACROSS, _NEAR = "#010101", "#020202", "#030303", "#040404", "#050505"
_VARIABLES: Final = {
    _TEXT: "var(--text)",
    _SOFT: "var(--soft)",
    _LINE: "var(--line)",
    _ACROSS: "rgb(var(--across))",
    _NEAR: "rgb(var(--near))",
}
"""Placeholder colours, and the CSS values that replace them."""
_SIZES: Final = {"wide": 9.6, "narrow": 3.7}
"""Widths in inches, as wide as on the page, so that text keeps its size."""
_ROW_INCHES: Final = 0.5
_BARS: Final = 10
_LETTERS: Final = {"wide": 70, "narrow": 22}
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10.0,
    "text.color": _TEXT,
    "text.parse_math": False,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid.axis": "y",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _LINE,
    "grid.linewidth": 0.8,
    "xtick.color": _LINE,
    "ytick.color": _LINE,
    "xtick.labelcolor": _SOFT,
    "ytick.labelcolor": _SOFT,
    "ytick.left": False,
}

Format: TypeAlias = Literal["csv", "parquet"]
_WRITERS: Final[Mapping[Format, Callable[[Path, pa.Schema], AbstractContextManager[Any]]]] = {
    "csv": csv.CSVWriter,
    "parquet": parquet.ParquetWriter,
}
_PART: Final = ".part"
_DAYS: Final = ("day", "ChargePeriodStart")
"""Columns of days."""


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
    month, all_known = report.headline.month, report.headline.judged_bytes >= _ALL * report.headline.bytes
    level = month.spent + month.saved if month.saved and all_known else None
    return (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            heat=heat_map(report.pairs, scale),
            time=cost_over_time(report.timeline, report.unit, level),
            own_level=level,
            all_known=all_known,
            top=_top_groups(report.groups),
            saved=_saved_and_possible(report.savers) if report.savers else None,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One plot in both widths, and its description for screen readers."""

    words: str
    wide: str
    narrow: str


def cost_over_time(timeline: Sequence[Moment], unit: str, level: float | None) -> Drawing:
    """Draw dollars a month at the rate of each minute, hour or day, which is the unit.

    `level` is what the fleet's groups would cost with their own assignors, over the whole period; None leaves it out.
    """
    values = [moment.dollars_per_month for moment in timeline]
    text = f"Cost over time, by {unit}: from {words.money(min(values))} to {words.money(max(values))} a month."
    if level is not None:
        text += f" With the groups' own assignors it would have been {words.money(level)} on average."

    def draw(axes: Axes, width: str) -> None:
        # UTC without a zone: labels would otherwise use matplotlib's configured zone
        at = date2num([moment.at.replace(tzinfo=None) for moment in timeline])  # type: ignore[no-untyped-call]
        step = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1.0}[unit]
        heights, edges = _stairs(values, at, step)
        axes.stairs(heights, edges, fill=True, color=_ACROSS, alpha=0.22, linewidth=0)
        axes.stairs(heights, edges, baseline=None, color=_ACROSS, linewidth=1.8)
        top = max(values, default=0.0)
        if level is not None:
            axes.plot([edges[0], edges[-1]], [level, level], color=_NEAR, linewidth=1.6, linestyle=(0, (5, 3)))
            axes.annotate(
                f"own assignors: {words.money(level)}",
                (edges[-1], level),
                xytext=(0, 4),
                textcoords="offset points",
                ha="right",
                color=_TEXT,
            )
            top = max(top, level)
        axes.set_ylim(0, max(top * 1.15, 0.05))  # between two cents no label differs
        axes.set_xlim(edges[0], edges[-1])
        locator = AutoDateLocator(minticks=3, maxticks=9 if width == "wide" else 5)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))  # type: ignore[no-untyped-call]
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words.money(value).removesuffix(".00")))

    return _drawing("time", text, 2.9, draw)


def _stairs(values: Sequence[float], at: Sequence[float], step: float) -> tuple[list[float], list[float]]:
    """Return heights and edges of stairs, each one step long; what was not measured between two has no height."""
    heights, edges = [values[0]], [at[0], at[0] + step]
    for value, begin in zip(values[1:], at[1:], strict=True):
        if begin > edges[-1] + step / 2:
            heights.append(math.nan)
            edges.append(begin)
        heights.append(value)
        edges.append(begin + step)
    return heights, edges


def _top_groups(groups: Sequence[GroupLine]) -> Drawing:
    """Draw the most expensive groups: the cost of a month, and how much of it the best plan would leave."""
    shown = groups[:_BARS]
    costs = [words.money(one.month.spent) for one in shown]
    listed = "; ".join(f"{one.cluster} {one.group} {cost}" for one, cost in zip(shown, costs, strict=True))
    kept = [max(0.0, one.month.spent - (one.month.possible or 0.0)) for one in shown]
    rest = [one.month.spent - least for one, least in zip(shown, kept, strict=True)]
    stacked = ((kept, _SOFT, 0.55), (rest, _ACROSS, 1.0))
    figures = {"wide": costs, "narrow": costs}
    return _bars("top", f"The most expensive groups, a month: {listed}.", shown, figures, stacked)


def _saved_and_possible(groups: Sequence[GroupLine]) -> Drawing:
    """Draw what agents saved of each group and what is still possible, a month."""
    shown = groups[:_BARS]
    amounts = [(words.money(one.month.saved), words.money(one.month.possible)) for one in shown]
    pairs = [f"saved {saved}, possible {possible}" for saved, possible in amounts]
    listed = "; ".join(f"{one.cluster} {one.group} {pair}" for one, pair in zip(shown, pairs, strict=True))
    saved = [max(0.0, one.month.saved or 0.0) for one in shown]
    possible = [one.month.possible or 0.0 for one in shown]
    stacked = ((saved, _NEAR, 1.0), (possible, _ACROSS, 1.0))
    figures = {"wide": pairs, "narrow": [" / ".join(both) for both in amounts]}  # pairs do not fit into a narrow line
    return _bars("saved", f"Saved and still possible, a month: {listed}.", shown, figures, stacked)


def _name(line: GroupLine, width: str) -> str:
    name, most = words.plain(f"{line.group}  ({line.cluster})"), _LETTERS[width]
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _bars(
    name: str,
    text: str,
    groups: Sequence[GroupLine],
    figures: Mapping[str, Sequence[str]],
    stacked: Sequence[tuple[Sequence[float], str, float]],
) -> Drawing:
    """Draw bars from the left, one below the other, each with its group above and its figure at the right end."""

    def draw(axes: Axes, width: str) -> None:
        axes.set_axis_off()
        left = [0.0] * len(groups)
        places = range(len(groups))
        for lengths, color, alpha in stacked:
            axes.barh(places, lengths, height=0.3, left=left, color=color, alpha=alpha, linewidth=0)
            left = [start + length for start, length in zip(left, lengths, strict=True)]
        most = max(left, default=0.0) or 1.0
        axes.set_xlim(0, most)
        axes.set_ylim(len(groups) - 0.75, -0.75)
        for place, (group, figure) in enumerate(zip(groups, figures[width], strict=True)):
            axes.text(0, place - 0.22, _name(group, width), va="bottom", ha="left")
            axes.text(most, place - 0.22, figure, va="bottom", ha="right", color=_SOFT)

    return _drawing(name, text, max(1, len(groups)) * _ROW_INCHES + 0.1, draw)


def _drawing(name: str, text: str, height: float, draw: Callable[[Axes, str], None]) -> Drawing:
    return Drawing(words=text, **{width: _svg(f"{name}-{width}", height, width, draw) for width in _SIZES})


def _svg(name: str, height: float, width: str, draw: Callable[[Axes, str], None]) -> str:
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(_SIZES[width], height), layout=ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02))
        draw(figure.add_subplot(), width)
        text = StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    return _for_page(text.getvalue(), width)


def _for_page(svg: str, width: str) -> str:
    """Return the SVG for use within a page: without file header, style, size and ids; in the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # all drawings have the same ids, and nothing refers to them
    svg = svg.replace("<svg ", f'<svg class="{width}" aria-hidden="true" ', 1)
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, variable)
    return svg


def write_tables(frames: Mapping[str, DataFrame], days: Iterable[date], folder: Path, kind: Format) -> tuple[Path, ...]:
    """Write each frame to a file of its name; frames with a column of the day day by day. Returns the files.

    Raises:
        AgentError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_table_file(frame, tuple(days), folder / f"{name}.{kind}", kind) for name, frame in frames.items())
    except OSError as error:
        raise AgentError(f"{folder}: cannot be written ({error.strerror or error}); name another folder") from None


def _table_file(frame: DataFrame, days: tuple[date, ...], path: Path, kind: Format) -> Path:
    by = next((name for name in _DAYS if name in frame.columns), None)
    parts = [frame] if by is None else [frame.where(F.col(by) == F.lit(day)) for day in days]
    part = path.with_name(path.name + _PART)
    tables = (one.toArrow() for one in parts)
    first = next(tables)
    with _WRITERS[kind](part, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table.cast(first.schema))
    part.replace(path)
    return path
