"""The plot of a group's history: any value stays in panels, gaps stay gaps, and the table has the same figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from samerack.agent.web.history_plot import LEFT, RATES, RIGHT, SHARES, Plot, plot
from samerack.agent.web.page import environment
from samerack.events import Kind
from samerack.events.history import POINTS, HistoryPoint
from samerack.reporting.report_service import MIN_POINTS, GroupHistory, Mark

STEP = 300.0
BEGIN = 1_800_000_000.0
WIDTH, HEIGHT = 720, 322
_RATE = st.none() | st.floats(0, 1e15)
_SHARE = st.none() | st.floats(0, 1)
VALUES = st.lists(st.tuples(_RATE, _SHARE), min_size=MIN_POINTS, max_size=POINTS)
_KINDS: tuple[Kind, ...] = ("rebalance", "plan")
MARKS = st.lists(st.tuples(st.floats(0, 0.999), st.sampled_from(_KINDS)), max_size=20)


def history(
    values: Sequence[tuple[float | None, float | None]], marks: Sequence[Mark] = (), *, step: float = STEP
) -> GroupHistory:
    """A history of rates and shares."""
    return GroupHistory(
        group="orders",
        step_seconds=step,
        points=tuple(
            HistoryPoint(at=BEGIN + place * step, bytes_per_second=rate, cross_rack_share=share)
            for place, (rate, share) in enumerate(values)
        ),
        marks=tuple(marks),
    )


def drawn(*rates: float | None) -> Plot:
    """The plot of rates, after as many unknown ones as are needed."""
    values = [*[None] * (MIN_POINTS - len(rates)), *rates]
    found = plot(history([(rate, None) for rate in values]))
    assert found is not None
    return found


def points(path: str) -> list[list[tuple[float, float]]]:
    """The coordinates of each part of a path."""
    parts = re.findall(r"M([^MZh]+)", path)
    return [[(float(x), float(y)) for x, y in (pair.split() for pair in part.split("L"))] for part in parts]


def svg(found: Plot) -> ET.Element:
    """The drawing as it is in the page."""
    template = environment().from_string(
        '{% import "history.html" as histories with context %}{{ histories.history(drawn, "a & <b>", 300.0) }}'
    )
    text = template.render(drawn=found)
    return ET.fromstring(text[text.index("<svg") : text.index("</svg>") + len("</svg>")])  # noqa: S314 - our own


@given(VALUES, MARKS)
def test_all_is_in_its_panel(values: list[tuple[float | None, float | None]], marks: list[tuple[float, Kind]]) -> None:
    """Each known value is drawn once, in order, within its panel, and no line leads over an unknown one."""
    span = STEP * len(values)
    found = plot(history(values, [Mark(at=BEGIN + part * span, kind=kind) for part, kind in marks]))
    if found is None:
        assert all(rate is None for rate, _ in values)
        return
    for line, panel, known in (
        (found.rates, RATES, [rate for rate, _ in values]),
        (found.shares, SHARES, [share for _, share in values]),
    ):
        parts = points(line.stroke)
        xs = [x for part in parts for x, _ in part]
        assert xs == sorted(set(xs))
        assert len(xs) == sum(value is not None for value in known)
        assert len(parts) == sum(
            value is not None and (place == 0 or known[place - 1] is None) for place, value in enumerate(known)
        )
        assert all(LEFT < x < RIGHT and panel[0] <= y <= panel[1] for part in parts for x, y in part)
        assert all(panel[0] <= y <= panel[1] for part in points(line.area) for _, y in part)
    assert found.rates.top >= max(rate for rate, _ in values if rate is not None)
    assert all(LEFT < x < RIGHT for x in (*found.rebalances, *found.plans))
    assert (len(found.rebalances) > 0, len(found.plans) > 0) == tuple(
        any(kind == name for _, kind in marks) for name in ("rebalance", "plan")
    )
    assert sum(row.rebalances + row.plans for row in found.rows) == len(marks)


def test_nothing_known_is_no_plot() -> None:
    """Without any known rate there is no drawing, and the page says so."""
    assert plot(history([(None, None)] * MIN_POINTS)) is None
    text = environment().from_string('{% import "history.html" as h with context %}{{ h.history(none, "g", 300.0) }}')
    assert "Nothing was measured in this time." in text.render()


def test_the_table_has_a_row_for_each_hour() -> None:
    """Rows have the mean of what is known, the newest first, and count all marks, also several of one step."""
    values = [(100.0, 0.5), (300.0, 0.25), (200.0, None), (None, None), *[(None, None)] * 8, *[(0.0, None)] * 12]
    marks = [Mark(at=BEGIN + at, kind="rebalance") for at in (0.0, 1.0, 4000.0)] + [Mark(at=BEGIN + 2.0, kind="plan")]
    found = plot(history(values, marks))
    assert found is not None
    assert [(row.at - BEGIN, row.bytes_per_second, row.share, row.rebalances, row.plans) for row in found.rows] == [
        (3600.0, 0.0, None, 1, 0),
        (0.0, 200.0, 0.3125, 2, 1),
    ]
    assert found.row_seconds == 3600.0
    assert len(found.rebalances) == 2, "two of one step are one mark"


def test_readers_of_screens_get_the_figures() -> None:
    """The drawing has a name and a description with extremes and numbers; what is not known is said."""
    found = plot(history([(1000.0, 0.5), (2000.0, 0.125), *[(None, None)] * 10], [Mark(at=BEGIN, kind="plan")]))
    assert found is not None
    facts = ("08:00:00", "09:00:00 UTC", "1 kB/s to 2 kB/s", "12 % to 50 %", "rebalances: 0", "plans of the agent: 1")
    assert [fact for fact in facts if fact not in found.words] == []
    assert "across racks: not known" in drawn(1.0).words
    root = svg(found)
    assert root.get("role") == "img"
    assert "over time" in root.get("aria-label", "")
    assert [(one.get("id"), one.text) for one in root.iter("desc")] == [(root.get("aria-describedby"), found.words)]
