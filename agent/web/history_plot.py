"""Draws the history of a group: two lines over one time axis, with a mark for each rebalance and each plan.

Pure: from values to coordinates, which the template writes as SVG. What is not known is a gap in a line. Several marks
of one kind in one step are drawn as one. The same figures are a table, with one row for every twelve points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from samerack.common import words
from samerack.events.history import HistoryPoint
from samerack.reporting.report_service import GroupHistory

LEFT: Final = 8
"""The time axis has a margin, so that marks at its ends are drawn whole."""
RIGHT: Final = 712
RATES: Final = (40, 140)
"""Top and bottom of the panel of rates; the SVG's y grows downwards."""
SHARES: Final = (188, 268)
"""The same of the panel of shares."""
_POINTS_OF_ROW: Final = 12
_MAX_TICKS: Final = 6
_TICK_SECONDS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200)
_DAY: Final = 86_400
_TICK_MARGIN: Final = 34
"""A label that is nearer to an end of the axis would be cut off."""
_ROUND: Final = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: the data of two SVG paths, and the value at the top of its panel; empty paths if nothing is known."""

    stroke: str
    area: str
    top: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One label of the time axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTableRow:
    """One row of the table: means of its points from `at` on, and numbers of rebalances and plans."""

    at: float
    bytes_per_second: float | None
    share: float | None
    rebalances: int
    plans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What the template draws; `words` says it for screen readers, and `rows` begin with the newest."""

    words: str
    rates: Line
    shares: Line
    rebalances: tuple[float, ...]
    plans: tuple[float, ...]
    ticks: tuple[Tick, ...]
    rows: tuple[HistoryTableRow, ...]
    row_seconds: float


def plot(history: GroupHistory) -> Plot | None:
    """Return the drawing; None if nothing is known of the whole time."""
    rates = [point.bytes_per_second for point in history.points]
    shares = [point.cross_rack_share for point in history.points]
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    return Plot(
        words=_words(history, known, [share for share in shares if share is not None]),
        rates=_line(rates, _rounded_up(max(known)), RATES),
        shares=_line(shares, 1.0, SHARES),
        rebalances=_places(history, "rebalance"),
        plans=_places(history, "plan"),
        ticks=tuple(_ticks(history)),
        rows=tuple(_rows(history)),
        row_seconds=history.step_seconds * _POINTS_OF_ROW,
    )


def _words(history: GroupHistory, rates: Sequence[float], shares: Sequence[float]) -> str:
    kinds = Counter(mark.kind for mark in history.marks)
    crossed = f"{words.percent(min(shares))} to {words.percent(max(shares))} of it" if shares else "not known"
    return (
        f"From {words.when(history.begin)} to {words.when(history.end)} UTC it read {words.rate(min(rates))} to "
        f"{words.rate(max(rates))}; across racks: {crossed}; rebalances: {kinds['rebalance']}; plans of the agent: "
        f"{kinds['plan']}."
    )


def _line(values: Sequence[float | None], top: float, panel: tuple[int, int]) -> Line:
    """Return a line through the middle of each step, broken where a value is not known."""
    highest, lowest = panel
    strokes, areas = [], []
    for run in _runs(values):
        xs = [_x((place + 0.5) / len(values)) for place, _ in run]
        heights = [(lowest - highest) * min(1.0, value / top) for _, value in run]
        points = [f"{x} {lowest - height:.1f}" for x, height in zip(xs, heights, strict=True)]
        # a line of no length has round ends, so that a single point is seen
        strokes.append(f"M{points[0]}{'h0' if len(points) == 1 else ''}" + "".join(f"L{point}" for point in points[1:]))
        areas.append(f"M{xs[0]} {lowest}" + "".join(f"L{point}" for point in points) + f"L{xs[-1]} {lowest}Z")
    return Line(stroke="".join(strokes), area="".join(areas), top=top)


def _runs(values: Iterable[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Yield the known values that follow each other, with their places."""
    run: list[tuple[int, float]] = []
    for place, value in enumerate(values):
        if value is not None:
            run.append((place, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _x(part: float) -> float:
    """Return where a part of the time axis, 0 to 1, is."""
    return round(LEFT + part * (RIGHT - LEFT), 1)


def _rounded_up(highest: float) -> float:
    """Return a round number that is not lower; 1 for nothing."""
    if highest <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(highest))
    return next((unit * digit for digit in _ROUND if unit * digit >= highest), highest)


def _places(history: GroupHistory, kind: str) -> tuple[float, ...]:
    """Return where the marks of one kind are, in the middle of their steps."""
    steps = {int((mark.at - history.begin) // history.step_seconds) for mark in history.marks if mark.kind == kind}
    return tuple(_x((step + 0.5) / len(history.points)) for step in sorted(steps))


def _ticks(history: GroupHistory) -> Iterator[Tick]:
    span = history.end - history.begin
    seconds = next(
        (one for one in _TICK_SECONDS if span / one <= _MAX_TICKS), math.ceil(span / _MAX_TICKS / _DAY) * _DAY
    )
    at = math.ceil(history.begin / seconds) * seconds
    while at < history.end:
        x = _x((at - history.begin) / span)
        if LEFT + _TICK_MARGIN <= x <= RIGHT - _TICK_MARGIN:
            date, _, time = words.when(at).partition(" ")
            yield Tick(x=x, text=time[:5] if seconds < _DAY else date[5:])
        at += seconds


def _rows(history: GroupHistory) -> Iterator[HistoryTableRow]:
    length = history.step_seconds * _POINTS_OF_ROW
    points: dict[int, list[HistoryPoint]] = {}
    for point in history.points:
        points.setdefault(int(point.at // length), []).append(point)
    marks = Counter((int(mark.at // length), mark.kind) for mark in history.marks)
    for number in sorted(points, reverse=True):
        rates = [point.bytes_per_second for point in points[number] if point.bytes_per_second is not None]
        yield HistoryTableRow(
            at=number * length,
            bytes_per_second=sum(rates) / len(rates) if rates else None,
            share=_mean_share(points[number]),
            rebalances=marks[number, "rebalance"],
            plans=marks[number, "plan"],
        )


def _mean_share(points: Iterable[HistoryPoint]) -> float | None:
    """Return the share of all bytes for which it is known."""
    known = [
        (point.bytes_per_second, point.cross_rack_share)
        for point in points
        if point.bytes_per_second is not None and point.cross_rack_share is not None
    ]
    read = sum(rate for rate, _ in known)
    return sum(rate * share for rate, share in known) / read if read else None
