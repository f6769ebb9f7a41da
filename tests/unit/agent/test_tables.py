"""Tables of groups, members and partitions: their order, a search, bounds, and links that keep what was chosen."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.agent.web.tables import (
    GROUPS_SHOWN,
    OF_ONE,
    OF_SEVERAL,
    ROWS_SHOWN,
    GroupsTable,
    ShownGroup,
    group_address,
    groups_table,
    known_sort,
    lag_tables,
)
from samerack.reporting.group_lag import GroupLag, MemberLag, PartitionLag, group_lag
from tests.unit.agent.measured import A, B, busy, group, reports

_GROUP = reports(busy()).report().groups[0]


def shown(*names: str) -> list[ShownGroup]:
    """Group of these names; the n-th costs n dollars, but for the first, whose cost is not known."""
    return [
        ShownGroup(group=replace(_GROUP, group=name, dollars_per_month=at or None), address=name, cluster=f"c{at % 2}")
        for at, name in enumerate(names)
    ]


def names(table: GroupsTable) -> list[str]:
    """The rows."""
    return [row.group.group for row in table.table.rows]


def test_the_most_expensive_come_first_and_what_is_not_known_last() -> None:
    """Without a request, and where it names no column."""
    groups = shown("unknown", "one", "two")
    assert names(groups_table(groups, OF_ONE, {})) == ["two", "one", "unknown"]
    assert names(groups_table(groups, OF_ONE, {"sort": "nonsense"})) == ["two", "one", "unknown"]
    assert names(groups_table(groups, OF_ONE, {"sort": "cluster"})) == ["two", "one", "unknown"]
    assert names(groups_table(groups, OF_SEVERAL, {"sort": "cluster"})) == ["unknown", "two", "one"]
    assert names(groups_table(groups, OF_ONE, {"sort": "group"})) == ["one", "two", "unknown"]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("order", ["orders-eu", "ORDERS"]),
        (" orders ", ["orders-eu", "ORDERS"]),
        ("orders-*", ["orders-eu"]),
        ("*eu", ["payments-eu", "orders-eu"]),
        ("eu", ["payments-eu", "orders-eu"]),
        ("[po]*s", ["ORDERS"]),
        ("nothing", []),
        ("", ["payments-eu", "orders-eu", "ORDERS"]),
    ],
)
def test_a_search_is_a_part_of_a_name_or_a_pattern(search: str, found: list[str]) -> None:
    """Whatever the case; a pattern is of the whole name."""
    table = groups_table(shown("ORDERS", "orders-eu", "payments-eu"), OF_ONE, {"q": search})
    assert names(table) == found
    assert (table.matching, table.groups) == (len(found), 3)


@given(st.text(max_size=20), st.sampled_from(["", *OF_ONE]), st.booleans())
def test_links_keep_the_search(search: str, sort: str, refresh: bool) -> None:  # noqa: FBT001 - a property
    """A heading changes the order alone."""
    asked = {"q": search, "sort": sort, **({"refresh": "on"} if refresh else {})}
    table = groups_table(shown("a"), OF_ONE, asked)
    for heading, name in zip(table.table.headings, OF_ONE, strict=True):
        found = parse_qs(urlsplit(heading.address).query)
        expected = {"sort": [name], **({"q": [table.search]} if table.search else {})}
        assert found == {**expected, **({"refresh": ["on"]} if refresh else {})}
    assert [one.order for one in table.table.headings].count("") == len(OF_ONE) - 1
    assert table.kept == {**({"sort": sort} if sort else {}), **({"refresh": "on"} if refresh else {})}


def test_rows_are_bounded() -> None:
    """What is left out is counted."""
    table = groups_table(shown(*(str(number) for number in range(GROUPS_SHOWN + 7))), OF_ONE, {})
    assert (len(table.table.rows), table.table.more, table.matching) == (GROUPS_SHOWN, 7, GROUPS_SHOWN + 7)


# the members and partitions on a group's page

NAME = "orders <&> {}"
MEMBER = MemberLag(
    member_id="m1",
    client_id="b",
    rack=B,
    pace="catches up",
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
            replace(
                MEMBER, member_id="m2", lag_records=None, lag_seconds=None, rack=None, pace=None, bytes_per_second=None
            ),
            replace(
                MEMBER,
                member_id="m3",
                client_id="a",
                lag_records=9,
                lag_seconds=1.0,
                rack=A,
                pace="falls behind",
                partitions=4,
            ),
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


def test_links_keep_the_group_and_the_refreshing() -> None:
    """Each heading links to the page in its order, with the name as the browser must send it."""
    tables = lag_tables(lag(), sort="age", refresh=True)
    by_rack = next(one for one in tables.members.headings if one.title == "Rack")
    assert by_rack.address == "group?name=orders%20%3C%26%3E%20%7B%7D&sort=rack&refresh=on#members"
    assert [one.order for one in tables.partitions.headings] == ["", "", "", "", "descending"]
    assert group_address("g") == "group?name=g"
    assert (known_sort("age"), known_sort('"><script>')) == ("age", "")


def test_rows_of_partitions_are_bounded() -> None:
    """The largest lags are shown, and how many partitions are not."""
    tables = lag_tables(lag(ROWS_SHOWN + 40), sort="lag", refresh=False)
    assert (len(tables.partitions.rows), tables.partitions.more, tables.members.more) == (ROWS_SHOWN, 40, 0)
    assert tables.partitions.rows[0].lag_records is None
