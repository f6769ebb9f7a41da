"""Words for people: names that a user may have meant, shortened ids; and lengths of time as users write them."""

from __future__ import annotations

import pytest

from samerack.common.words import nearest, seconds_of, short_id


def test_the_nearest_names_come_first() -> None:
    """The message on a typo has the name that was meant; of many names only some are shown, and how many there are."""
    assert nearest("ordrs", ["billing", "orders", "payments"]) == "closest matches: orders, billing, payments"
    many = [f"group-{number}" for number in range(20)]
    assert nearest("group-7", many).startswith("closest matches: group-7, ")
    assert nearest("group-7", many).endswith(" and 15 more")
    assert nearest("orders", []) == "there are no groups"


def test_the_end_of_a_member_id_distinguishes_it() -> None:
    """Ids that the brokers make begin with the client id and end at random; a short one stays whole."""
    ids = [f"consumer-orders-1-0f9b2f22-07a1-4b6e-9d0c-91d3a6c2{end}" for end in ("b0e4", "77aa")]
    assert [short_id(one) for one in ids] == ["…a6c2b0e4", "…a6c277aa"]
    assert short_id("member-01") == "member-01"


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("30m", 1800), ("2h", 7200), ("1d", 86_400), ("1w", 604_800), (" 1.5h ", 5400)]
)
def test_a_number_with_a_unit_is_read(text: str, seconds: float) -> None:
    """Each unit counts, also with a fraction."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "-5m", "30 m", "1h30m", "5y", "1e3s", "٣m", "9" * 400 + "s"])
def test_anything_else_is_none(text: str) -> None:
    """A missing number or unit, a sign, another unit and too long a number are no length of time."""
    assert seconds_of(text) is None
