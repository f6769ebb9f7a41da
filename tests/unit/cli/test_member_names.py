"""Short names of members: no two alike, and as short as that allows."""

from __future__ import annotations

from samerack.cli.member_names import short_names


def test_a_client_id_is_enough_where_it_is_the_only_one() -> None:
    """The rest of the member id is not shown."""
    assert short_names({"pay-0-5f0c1e5e-8c5b": "pay-0", "pay-1-5f0c1e5e-8c5b": "pay-1"}) == {
        "pay-0-5f0c1e5e-8c5b": "pay-0",
        "pay-1-5f0c1e5e-8c5b": "pay-1",
    }
    assert short_names({}) == {}


def test_members_with_one_client_id_have_what_distinguishes_them() -> None:
    """Four characters of what the broker appended, or more where these are alike; others keep their client id."""
    ids = {"c-5f0c11": "c", "c-5f0c22": "c", "c-77aa11": "c", "d-1": "d"}
    assert list(short_names(ids).values()) == ["c-5f0c1", "c-5f0c2", "c-77aa1", "d"]


def test_member_ids_need_not_begin_with_the_client_id() -> None:
    """Members of the new protocol have ids of their own, static ones their instance id."""
    ids = {"Vb8yPq": "c", "pod-3-5f0c": "c"}
    assert list(short_names(ids).values()) == ["c-Vb8y", "c-pod-"]


def test_names_that_cannot_be_short_are_whole_ids() -> None:
    """Without the client id both would be `x`."""
    ids = {"c-x": "c", "x": "c"}
    assert short_names(ids) == {"c-x": "c-x", "x": "x"}
