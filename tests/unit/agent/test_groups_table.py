"""The table of groups: its order, a search by name, and that both stay with each link."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.agent.web.groups_table import GROUPS_SHOWN, OF_ONE, OF_SEVERAL, GroupsTable, ShownGroup, groups_table
from tests.unit.agent.measured import busy, reports

_GROUP = reports(busy()).report().groups[0]


def shown(*names: str) -> list[ShownGroup]:
    """Groups of these names; the n-th costs n dollars, but for the first, whose cost is not known."""
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
