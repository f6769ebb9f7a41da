"""`windows.next_opening`: when a window is open, when the next one opens, and daylight saving time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.agent.policy.windows import next_opening
from samerack.common.settings import WindowSettings

BERLIN = "Europe/Berlin"
NIGHT = WindowSettings(cron="30 2 * * *", minutes=60, timezone=BERLIN)


def at(text: str) -> float:
    """Seconds since 1970 of a time in UTC, or with its own offset."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def test_any_window_will_do() -> None:
    """One open window is enough; else the first opening is returned."""
    windows = [WindowSettings(cron="0 2 * * *", minutes=60), WindowSettings(cron="0 12 * * SAT,SUN", minutes=60)]
    assert next_opening(windows, at("2027-01-16T12:30:00")) is None
    assert next_opening(windows, at("2027-01-16T05:00:00")) == at("2027-01-16T12:00:00")
    assert next_opening(windows, at("2027-01-18T05:00:00")) == at("2027-01-19T02:00:00")


def test_a_window_may_be_longer_than_the_time_between_two_starts() -> None:
    """A window that is longer than the time between its starts is always open."""
    window = WindowSettings(cron="*/10 * * * *", minutes=15)
    start = at("2027-01-16T00:00:00")
    assert [next_opening([window], start + minute * 60) for minute in range(60)] == [None] * 60


@pytest.mark.parametrize(
    ("wall", "opening"),
    [
        ("2027-01-16T02:29:59+01:00", "2027-01-16T02:30:00+01:00"),
        ("2027-01-16T03:29:59+01:00", None),
        # 2027-03-28: 02:00 becomes 03:00, so 02:30 does not come; the window opens right after it, for its hour
        ("2027-03-28T01:59:59+01:00", "2027-03-28T03:00:00+02:00"),
        ("2027-03-28T03:00:00+02:00", None),
        ("2027-03-28T03:59:59+02:00", None),
        ("2027-03-28T04:00:00+02:00", "2027-03-29T02:30:00+02:00"),
        # 2027-10-31: 03:00 becomes 02:00, so 02:30 comes twice; the window opens the first time only
        ("2027-10-31T02:29:59+02:00", "2027-10-31T02:30:00+02:00"),
        ("2027-10-31T02:30:00+02:00", None),
        ("2027-10-31T02:29:59+01:00", None),
        ("2027-10-31T02:30:00+01:00", "2027-11-01T02:30:00+01:00"),
        ("2027-10-31T02:45:00+01:00", "2027-11-01T02:30:00+01:00"),
        ("2027-10-31T03:10:00+01:00", "2027-11-01T02:30:00+01:00"),
        ("2027-10-31T03:31:00+01:00", "2027-11-01T02:30:00+01:00"),
    ],
)
def test_clocks_that_change_neither_lose_a_window_nor_open_it_twice(wall: str, opening: str | None) -> None:
    """Minutes are real minutes, whatever the local clock shows."""
    assert next_opening([NIGHT], at(wall)) == (None if opening is None else at(opening))


WINDOWS = st.builds(
    WindowSettings,
    cron=st.builds("{} {} * * {}".format, st.integers(0, 59), st.integers(0, 23), st.sampled_from(["*", "MON", "6,7"])),
    minutes=st.floats(0.5, 3000.0),
    timezone=st.sampled_from(["UTC", BERLIN, "America/St_Johns", "Australia/Lord_Howe"]),
)


@given(window=WINDOWS, wall=st.floats(1_798_761_600.0, 1_830_297_600.0))
def test_what_is_told_to_open_opens_and_not_before(window: WindowSettings, wall: float) -> None:
    """At the returned time the window is open, just before it is closed, and that time is in the future."""
    opening = next_opening([window], wall)
    if opening is not None:
        assert wall < opening < wall + 8.1 * 86_400
        assert next_opening([window], opening) is None
        assert next_opening([window], opening - 0.5) == opening
