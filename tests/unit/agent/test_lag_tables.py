"""The members and partitions on a group's page: the requested order, bounds, and links that keep what was chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samerack.agent.web.lag_tables import ROWS_SHOWN, group_address, known_sort, lag_tables
from samerack.reporting.group_lag import GroupLag, MemberLag, PartitionLag, group_lag
from tests.unit.agent.measured import A, B, group

NAME = "orders <&> {}"
MEMBER = MemberLag(
    member_id="m1",
    client_id="b",
    rack=B,
    partitions=3,
    bytes_per_second=10.0,
    lag_records=5,
    lag_seconds=2.0,
)
ONE = PartitionLag(
    topic="t",
    partition=0,
    committed=1,
    lag_records=1,
    lag_seconds=9.0,
    member_id="m1",
    client_id="b",
    rack=B,
    serving_rack=None,
)


def lag(partitions: int = 3) -> GroupLag:
    """A group with two members of one client id, one member of another, and so many partitions."""
    rows = [
        ONE,
        replace(ONE, partition=1, lag_records=None, lag_seconds=None, client_id=None, member_id=None, rack=None),
        replace(ONE, partition=2, lag_records=7, lag_seconds=3.0, client_id="a", member_id="m3", rack=A),
        *(replace(ONE, partition=number, lag_records=0, lag_seconds=0.0) for number in range(3, partitions)),
    ]
    return replace(
        group_lag(group(NAME)),
        members=(
            MEMBER,
            replace(MEMBER, member_id="m2", lag_records=None, lag_seconds=None, rack=None, bytes_per_second=None),
            replace(MEMBER, member_id="m3", client_id="a", lag_records=9, lag_seconds=1.0, rack=A, partitions=4),
        ),
        partitions=tuple(rows[:partitions]),
    )


@pytest.mark.parametrize(
    ("sort", "members", "partitions"),
    [
        ("lag", ["m2", "m3", "m1"], [1, 2, 0]),
        ("age", ["m2", "m1", "m3"], [1, 0, 2]),
        ("member", ["m3", "m1", "m2"], [1, 2, 0]),
        ("rack", ["m2", "m3", "m1"], [1, 2, 0]),
        ("partitions", ["m3", "m1", "m2"], [1, 2, 0]),
        ("reads", ["m2", "m1", "m3"], [1, 2, 0]),
        ("partition", ["m2", "m3", "m1"], [0, 1, 2]),
        ("x' OR 1", ["m2", "m3", "m1"], [1, 2, 0]),
    ],
)
def test_rows_are_in_the_requested_order(sort: str, members: list[str], partitions: list[int]) -> None:
    """What is not known comes before the largest; a table without that column, or an unknown one, is sorted by lag."""
    tables = lag_tables(lag(), sort=sort, refresh=False)
    assert [one.member_id for one in tables.members.rows] == members
    assert [one.partition for one in tables.partitions.rows] == partitions
    for table in (tables.members, tables.partitions):
        assert len([one for one in table.headings if one.order]) == 1
    assert tables.shared_client_ids == {"b"}


def test_links_keep_the_group_and_the_refreshing() -> None:
    """Each heading links to the page in its order, with the name as the browser must send it."""
    tables = lag_tables(lag(), sort="age", refresh=True)
    by_rack = next(one for one in tables.members.headings if one.title == "Rack")
    assert by_rack.address == "group?name=orders%20%3C%26%3E%20%7B%7D&sort=rack&refresh=on#members"
    assert [one.order for one in tables.partitions.headings] == ["", "", "", "", "descending"]
    assert group_address("g") == "group?name=g"
    assert (known_sort("age"), known_sort('"><script>')) == ("age", "")


def test_rows_are_bounded() -> None:
    """The largest lags are shown, and how many partitions are not."""
    tables = lag_tables(lag(ROWS_SHOWN + 40), sort="lag", refresh=False)
    assert (len(tables.partitions.rows), tables.partitions.more, tables.members.more) == (ROWS_SHOWN, 40, 0)
    assert tables.partitions.rows[0].lag_records is None
