"""The history of traffic: means of steps, gaps, bounds, a clock that is set, and what a restart keeps."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from samerack.events import EventLog
from samerack.events.event_log import EventMetrics
from samerack.events.event_writer import EventWriter
from samerack.events.history import POINTS, Figures, HistoryRow, TrafficHistory
from samerack.events.store import Store
from samerack.traffic.board import Published
from samerack.traffic.snapshot import GroupTraffic, Shares, TrafficSnapshot
from tests.unit.waiting import LONGEST_SECONDS, until

STEP = 300.0
BEGIN = 1_800_000_000.0
"""The beginning of a step."""


def figures(rate: float, share: float | None = None) -> Figures:
    """The figures of one point."""
    return Figures(bytes_per_second=rate, share=share)


class Measured:
    """A history whose time is that of the last snapshot."""

    def __init__(self, *, max_groups: int = 10, step_seconds: float = STEP) -> None:
        self.now = BEGIN
        self.history = TrafficHistory(step_seconds=step_seconds, max_groups=max_groups, clock=lambda: self.now)

    def see(self, at: float, **groups: tuple[float | None, float | None]) -> None:
        """Publish a snapshot of groups with a rate and a share."""
        self.now = at
        seen = tuple(
            GroupTraffic(
                group=name, kind="classic", state="Stable", bytes_per_second=rate, shares=Shares(present_bytes=share)
            )
            for name, (rate, share) in groups.items()
        )
        self.history.take(Published(snapshot=TrafficSnapshot(groups=seen, window_end=at, cycle=1), totals={}))

    def known(self, group: str) -> dict[float, Figures]:
        """The known points of a group, by seconds since BEGIN."""
        return {
            point.at - BEGIN: figures(point.bytes_per_second, point.cross_rack_share)
            for point in self.history.points(group)
            if point.bytes_per_second is not None
        }


def test_a_point_is_the_mean_of_its_snapshots() -> None:
    """Rates have the mean, shares that weighted by bytes; a snapshot without a share counts for the rate only."""
    measured = Measured()
    measured.see(BEGIN, orders=(100.0, 0.625))
    measured.see(BEGIN + 5, orders=(300.0, 0.125))
    measured.see(BEGIN + 10, orders=(200.0, None))
    measured.see(BEGIN + 15, orders=(None, None))
    assert measured.known("orders") == {0.0: figures(200.0, 0.25)}
    measured.see(BEGIN + STEP, orders=(0.0, None))
    assert measured.known("orders") == {0.0: figures(200.0, 0.25), STEP: figures(0.0)}


def test_what_was_not_measured_is_a_gap() -> None:
    """Steps without a snapshot, and those whose snapshots do not know the group, have no figures: not 0."""
    measured = Measured()
    measured.see(BEGIN, orders=(100.0, 0.5), reports=(None, None))
    measured.see(BEGIN + STEP, reports=(None, None))
    measured.see(BEGIN + 3 * STEP, orders=(50.0, 0.5))
    points = measured.history.points("orders")
    assert len(points) == POINTS
    assert [point.at for point in points[-2:]] == [BEGIN + 2 * STEP, BEGIN + 3 * STEP]
    assert measured.known("orders").keys() == {0.0, 3 * STEP}
    assert measured.known("reports") == measured.known("nobody") == {}


def test_a_day_is_kept_and_no_more() -> None:
    """A point is there for a day, and then no longer, also of a group that is measured no more."""
    measured = Measured()
    measured.see(BEGIN, orders=(1.0, None), gone=(7.0, None))
    for step in range(1, POINTS):
        measured.see(BEGIN + step * STEP, orders=(1.0 + step, None))
    assert [one.bytes_per_second for one in measured.known("orders").values()] == [1.0 + n for n in range(POINTS)]
    assert measured.known("gone") == {0.0: figures(7.0)}
    measured.see(BEGIN + POINTS * STEP, orders=(0.0, None))
    assert min(measured.known("orders")) == STEP
    assert measured.known("gone") == {}
    measured.see(BEGIN + (POINTS + 1) * STEP, orders=(0.0, None))
    assert measured.history._series.keys() == {"orders"}


@given(st.lists(st.tuples(st.integers(0, 4 * POINTS), st.integers(0, 10**15)), min_size=1, max_size=30))
def test_each_known_point_was_measured_then(steps: list[tuple[int, int]]) -> None:
    """Whatever the clock does, a point has figures of its own step, and none of another day is in its place."""
    measured = Measured()
    for step, rate in steps:
        measured.see(BEGIN + step * STEP, orders=(float(rate), None))
    for at, found in measured.known("orders").items():
        rates = [rate for step, rate in steps if step == at // STEP]
        assert min(rates) * (1 - 1e-6) <= found.bytes_per_second <= max(rates) * (1 + 1e-6)
    assert steps[-1][0] * STEP in measured.known("orders")


def test_a_clock_that_was_ahead_does_no_harm_for_long() -> None:
    """After a clock was a year ahead, points of the present are kept, and those of the future are not shown."""
    measured = Measured()
    measured.see(BEGIN + 365 * 86_400, orders=(9.0, None))
    for step in range(3):
        measured.see(BEGIN + step * STEP, orders=(1.0, None))
    assert measured.known("orders").keys() == {0.0, STEP, 2 * STEP}


def test_groups_are_bounded() -> None:
    """Those that were measured longest ago are forgotten first."""
    measured = Measured(max_groups=3)
    measured.see(BEGIN, orders=(1.0, None), a=(1.0, None), b=(1.0, None))
    measured.see(BEGIN + STEP, orders=(1.0, None), b=(1.0, None), c=(1.0, None))
    measured.see(BEGIN + 2 * STEP, orders=(1.0, None))
    assert [bool(measured.known(name)) for name in ("orders", "a", "b", "c")] == [True, False, True, True]
    assert len(measured.history._series) == 3


@given(st.dictionaries(st.text(), st.tuples(st.floats(0, 1e15), st.none() | st.floats(0, 1)), max_size=5))
def test_a_row_is_read_as_it_was_written(groups: dict[str, tuple[float, float | None]]) -> None:
    """Any name and figure is there again, with four digits; None stays None."""
    row = HistoryRow(at=BEGIN, groups={name: figures(*one) for name, one in groups.items()})
    read = HistoryRow.from_bytes(BEGIN, row.to_bytes())
    assert read.groups.keys() == groups.keys()
    for name, (rate, share) in groups.items():
        assert math.isclose(read.groups[name].bytes_per_second, rate, rel_tol=1e-3)
        found = read.groups[name].share
        assert found is share is None or (
            found is not None and share is not None and math.isclose(found, share, rel_tol=1e-3)
        )


@pytest.mark.parametrize("body", [b"", b"{}", HistoryRow(at=0, groups={}).to_bytes()[:-1]])
def test_what_is_no_row_is_refused(body: bytes) -> None:
    """Bytes that are none raise a ValueError, which the store leaves out."""
    with pytest.raises(ValueError, match="no groups of a history"):
        HistoryRow.from_bytes(0.0, body)


def rows(*steps: int, since: float) -> list[HistoryRow]:
    """Rows of one group, each step with its number as rate."""
    return [HistoryRow(at=since + step * STEP, groups={"orders": figures(float(step), 0.25)}) for step in steps]


def test_the_file_keeps_a_day(tmp_path: Path) -> None:
    """Older rows go, and so do those of a clock that was ahead; what a newer version wrote is left out."""
    with closing(Store(tmp_path / "events.db", max_events=9, days=30)) as store:
        store.add_history(rows(0, 1, 2, 900, since=BEGIN), keep_seconds=2 * STEP)
        store.add_history(rows(2, 3, since=BEGIN), keep_seconds=2 * STEP)
        assert [row.at - BEGIN for row in store.history()] == [2 * STEP, 3 * STEP]
        with closing(sqlite3.connect(tmp_path / "events.db")) as other, other:
            other.execute("UPDATE history SET body = x'00' WHERE at = ?", (BEGIN + 2 * STEP,))
        assert [*store.history()] == rows(3, since=BEGIN)


@contextmanager
def written(path: Path, history: TrafficHistory) -> Iterator[EventWriter]:
    """A writer that runs and has read the file."""
    metrics = EventMetrics(CollectorRegistry())
    events = EventLog(metrics=metrics)
    writer = EventWriter(path, events=events, history=history, metrics=metrics, max_events=9, days=30)
    writer.start()
    assert until(lambda: writer._history_known)
    yield writer
    writer.stop()
    writer.join(LONGEST_SECONDS)


def test_a_restart_remembers_the_day(tmp_path: Path) -> None:
    """Each step that is over is written, and a process that begins anew has it; the gap between both stays a gap."""
    before, after = Measured(), Measured()
    before.now = after.now = BEGIN + 4 * STEP
    with written(tmp_path / "events.db", before.history):
        before.see(BEGIN, orders=(100.0, 0.5))
        before.see(BEGIN + STEP, orders=(300.0, None))
        before.see(BEGIN + 4 * STEP, orders=(1.0, None))
    with written(tmp_path / "events.db", after.history):
        assert after.known("orders") == {0.0: figures(100.0, 0.5), STEP: figures(300.0)}


def test_a_day_later_nothing_is_remembered(tmp_path: Path) -> None:
    """What the file has of another day does not come back."""
    before, after = Measured(), Measured()
    with written(tmp_path / "events.db", before.history):
        before.see(BEGIN, orders=(100.0, 0.5))
        before.see(BEGIN + STEP, orders=(300.0, None))
    after.now = BEGIN + POINTS * STEP
    with written(tmp_path / "events.db", after.history):
        assert after.history._series == {}


def test_rows_wait_while_the_file_cannot_be_used(tmp_path: Path) -> None:
    """An hour of points is written once the file can be used; older ones are in memory only."""
    measured = Measured()
    other = Store(tmp_path / "events.db", max_events=9, days=30)
    metrics = EventMetrics(CollectorRegistry())
    writer = EventWriter(
        tmp_path / "events.db",
        events=EventLog(metrics=metrics),
        history=measured.history,
        metrics=metrics,
        max_events=9,
        days=30,
        first_pause_seconds=0.01,
    )
    writer.start()
    for step in range(20):
        measured.see(BEGIN + step * STEP, orders=(float(step), None))
    assert "another agent writes to it" in writer.trouble
    other.close()
    writer.stop()
    writer.join(LONGEST_SECONDS)
    with closing(Store(tmp_path / "events.db", max_events=9, days=30)) as store:
        assert [row.groups["orders"].bytes_per_second for row in store.history()] == [float(n) for n in range(7, 19)]
    assert len(measured.known("orders")) == 20
