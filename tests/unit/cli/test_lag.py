"""`samerack lag`: what is not known stays unknown in sums, and whole names are there at any width."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest

from samerack.cli.lag import partitions_table
from samerack.common.console import Console
from samerack.reporting.group_lag import GroupLag, from_json, group_lag, to_json
from tests.unit.agent.measured import A, B, group


def behind() -> GroupLag:
    """A group of two members, of which one has a partition whose lag is not known; one partition has no member."""
    whole = group(members={"m1": A, "m2": B})
    first, second, third, *_ = whole.partitions
    return group_lag(
        replace(
            whole,
            partitions=(
                replace(first, committed=100, lag_seconds=75.0),
                replace(second, member="m2", lag_records=None, lag_seconds=None),
                replace(third, member=None, lag_records=7, lag_seconds=None),
            ),
            lag={"clicks": None},
            lag_seconds={"clicks": None},
        )
    )


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    """Members, topics and the whole: each says null as soon as one of its partitions does, and never 0."""
    found = behind()
    assert from_json(to_json(found)) == found
    assert (found.lag_records, found.lag_seconds) == (None, None)
    assert (found.topics["clicks"].lag_records, found.topics["clicks"].lag_seconds) == (None, None)
    assert [(one.client_id, one.rack, one.lag_records, one.lag_seconds) for one in found.members] == [
        ("client-m1", A, 20, 75.0),
        ("client-m2", B, None, None),
    ]
    assert [
        (one.partition, one.committed, one.lag_records, one.lag_seconds, one.client_id) for one in found.partitions
    ] == [
        (0, 100, 20, 75.0, "client-m1"),
        (1, None, None, None, "client-m2"),
        (2, None, 7, None, None),
    ]


def test_a_member_without_partitions_lags_behind_nothing() -> None:
    """It has no records to read, and reads none; a rate is known when that of all its partitions is."""
    whole = group(members={"m1": A, "m2": B})
    first, second, *_ = whole.partitions
    busy, idle = group_lag(replace(whole, partitions=(first, replace(second, bytes_per_second=None)))).members
    assert (busy.partitions, busy.bytes_per_second) == (2, None)
    assert (idle.partitions, idle.bytes_per_second, idle.lag_records, idle.lag_seconds) == (0, 0, 0, 0)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_table_fits_and_begins_with_what_needs_a_look(width: int) -> None:
    """Unknown lags come first, then the largest; no name is cut."""
    console = Console(width=width, file=StringIO(), record=True)
    console.print(partitions_table(behind(), width=width))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    rows = [line.split() for line in lines if "clicks-" in line]
    assert [row[:5] if row[3] == "-" else row[:6] for row in rows] == [
        ["clicks-1", "-", "-", "-", "client-m2"],
        ["clicks-0", "100", "20", "75", "s", "client-m1"],
        ["clicks-2", "-", "7", "-", "-"],
    ]
