"""Names are selected by patterns; what is left out stays out wherever it stands in the list."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.common.patterns import exactly, included, is_pattern, selects, wrong_selection

texts = st.text("ab*!?", min_size=1, max_size=4)


@given(
    st.lists(texts, max_size=5).flatmap(lambda entries: st.tuples(st.just(entries), st.permutations(entries))), texts
)
def test_the_order_of_entries_does_not_count(entries: tuple[list[str], list[str]], name: str) -> None:
    """A name is selected in any order of the entries, and only by one that includes it."""
    one, other = entries
    assert selects(one, name) == selects(other, name)
    if selects(one, name):
        assert any(fnmatchcase(name, entry) for entry in included(one))


@pytest.mark.parametrize(
    ("entries", "name", "is_selected"),
    [
        (("orders-*", "!orders-test-*"), "orders-eu", True),
        (("orders-*", "!orders-test-*"), "orders-test-1", False),
        (("!orders-test-*", "*"), "orders-test-1", False),
        (("orders",), "orders-eu", False),
        ((), "orders", False),
        (("orders[prod]",), "orders[prod]", True),
        (("orders*", "!orders[prod]"), "orders[prod]", False),
        (("\\!orders",), "!orders", True),
        (("\\!*",), "orders", False),
    ],
)
def test_what_is_left_out(entries: tuple[str, ...], name: str, *, is_selected: bool) -> None:
    """Includes and excludes, as the settings describe them."""
    assert selects(entries, name) is is_selected


@given(texts | st.text(), texts | st.text())
def test_one_name_exactly(name: str, other: str) -> None:
    """Whatever signs a name has, its entry stands for it, and for no other."""
    assert selects([exactly(name)], name)
    assert selects([exactly(name)], other) == (name == other)


def test_what_cannot_be_meant() -> None:
    """Only to leave out, or to name what is left out, is refused with the cure."""
    assert wrong_selection(("!orders",)) == "'!orders' excludes names, but nothing is included; add '*'"
    assert wrong_selection(("orders", "!ord*")) == "'orders' is both included and excluded; remove one of the two"
    assert wrong_selection(("ord*", "!orders")) == wrong_selection(()) == ""
    assert [is_pattern(name) for name in ("orders", "!orders", "orders-?", "\\!a")] == [False, True, True, True]
