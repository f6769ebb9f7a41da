"""What the report's command refuses before Spark starts, and which periods of days are compared."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from typer.testing import CliRunner

from samerack.cli.main import app
from samerack.pipeline.report.gather import compared_spans, is_whole

_FIRST = date(2026, 11, 1)


def days(*numbers: int) -> list[date]:
    """Days of the month, by number."""
    return [_FIRST + timedelta(days=number - 1) for number in numbers]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "xlsx"), "is not one of 'csv', 'parquet'"),
        (("--days", "3", "--from", "2026-11-01"), "give one of them"),
        (("--from", "2026-11-02", "--to", "2026-11-01"), "first day is after the last"),
        (("-s", "money.prices=moon"), "money.prices"),
    ],
)
def test_wrong_input_is_refused_with_what_is_right(arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2 and a message with the right input, before Spark starts."""
    done = CliRunner().invoke(app, ["pipeline", "report", *arguments])
    assert done.exit_code == 2
    assert message in done.output


def test_two_days_and_two_weeks_are_compared_where_they_are() -> None:
    """The newest whole days are compared, if none is missing."""
    (daily,) = compared_spans(days(3, 4))
    assert (daily.name, daily.earlier, daily.later) == ("day over day", tuple(days(3)), tuple(days(4)))
    _, weekly = compared_spans(days(*range(1, 16)))
    assert (weekly.earlier, weekly.later) == (tuple(days(*range(2, 9))), tuple(days(*range(9, 16))))


@pytest.mark.parametrize("measured", [(), (1,), (1, 3), (4, 6, 7, 9)])
def test_gaps_are_compared_with_nothing(measured: tuple[int, ...]) -> None:
    """Periods with a missing day are not compared."""
    assert compared_spans(days(*measured)) == ()


@pytest.mark.parametrize(
    ("begin", "end", "expected"), [(0, 24, True), (0.5, 23.5, True), (2, 24, False), (0, 12, False)]
)
def test_a_day_is_whole_from_its_beginning_to_its_end(begin: float, end: float, expected: bool) -> None:  # noqa: FBT001 - a table
    """A day is whole if at most an hour is missing at either end."""
    day = datetime(2026, 11, 1, tzinfo=UTC)
    assert is_whole(_FIRST, day + timedelta(hours=begin), day + timedelta(hours=end)) is expected
