"""Words for people: names that a user may have meant."""

from __future__ import annotations

from samerack.common.words import nearest


def test_the_nearest_names_come_first() -> None:
    """A typo is told the name that was meant; of many names only some are shown, and how many there are."""
    assert nearest("ordrs", ["billing", "orders", "payments"]) == "those that are nearest: orders, billing, payments"
    many = [f"group-{number}" for number in range(20)]
    assert nearest("group-7", many).startswith("those that are nearest: group-7, ")
    assert nearest("group-7", many).endswith(" and 15 more")
    assert nearest("orders", []) == "there is none"
