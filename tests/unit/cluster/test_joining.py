"""The order of members: which one leads next, and where a member without topics is safe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.cluster.joining import (
    front_is_free,
    is_exposed,
    is_first,
    is_led_unknowingly,
    is_well_behind,
    offers_safe_place,
)
from samerack.protocol.java import buckets_for, spread_hash
from tests.unit.agent.values import group, member


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (("agent", "leader", "x"), True),
        (("leader", "agent", "x"), True),
        (("x", "agent", "leader"), False),
        (("leader", "x", "agent"), False),
        (("leader",), False),
        ((), False),
    ],
)
def test_first_is_who_stands_first_but_for_the_leader(order: tuple[str, ...], first: bool) -> None:  # noqa: FBT001 - a column of the table
    """When the leader leaves, the first of the others leads."""
    assert is_first(group(*(member(name) for name in order)), "agent", "leader") is first


def in_java_order(names: list[str], buckets: int) -> list[str]:
    """The names in the order of a `HashMap` with this many buckets."""
    return sorted(names, key=lambda name: spread_hash(name) & (buckets - 1))


@pytest.mark.parametrize("buckets", [16, 64])
def test_the_front_is_taken_by_who_sits_in_the_first_bucket(buckets: int) -> None:
    """No new id comes before a member of bucket 0, unless that is the leader, which will be gone."""
    by_bucket = {spread_hash(name) & (buckets - 1): name for name in (f"m-{number}" for number in range(1000))}
    taker, agent, leader = by_bucket[0], by_bucket[5], by_bucket[9]

    def free(*names: str, lead: str) -> bool:
        listed = in_java_order([*names, agent], buckets)
        return front_is_free(group(*(member(name) for name in listed)), agent, lead)

    assert not free(taker, leader, lead=leader)
    assert free(taker, leader, lead=taker)
    assert free(leader, by_bucket[1], lead=leader)
    assert free(leader, lead=leader)


def test_an_order_that_no_table_explains_leaves_hope() -> None:
    """If the order is not that of a hash table, the front counts as free: trying costs little."""
    names = in_java_order([f"m-{number}" for number in range(12)], 1 << 20)[::-1]
    assert front_is_free(group(*(member(name) for name in names)), "agent", names[0])


def by_bucket(buckets: int) -> dict[int, str]:
    """A name for each bucket of a table."""
    return {spread_hash(name) & (buckets - 1): name for name in (f"m-{number}" for number in range(2000))}


@pytest.mark.parametrize(
    ("protocol", "mine", "other", "exposed"),
    [
        ("sticky", 3, 9, True),
        ("cooperative-sticky", 3, 9, True),
        ("somebody's own", 3, 9, True),
        ("sticky", 9, 3, False),
        ("range", 0, 9, False),
        ("roundrobin", 0, 9, False),
        ("sticky", 3, 2 + 16, True),  # before the other only while the table has 16 buckets: it may have grown
    ],
)
def test_a_member_before_all_others_is_exposed(protocol: str, mine: int, other: int, *, exposed: bool) -> None:
    """Java's sticky assignors give partitions to a member without topics that comes first in their table."""
    names = by_bucket(32)
    view = group(member(names[mine]), member(names[other]), protocol=protocol)
    assert is_exposed(view, names[mine]) is exposed


def test_the_front_behind_the_leader_is_sought_where_somebody_must_stand_in_front() -> None:
    """With a sticky leader the agent may lead next only from a place between the leader and all others."""
    names = by_bucket(16)
    leader, agent, other = names[4], names[12], names[8]

    def free(*listed: str, lead: str) -> bool:
        return front_is_free(group(*(member(name) for name in listed), protocol="sticky"), agent, lead)

    assert free(leader, other, agent, lead=leader)
    assert not free(leader, other, agent, lead=other)
    assert not free(names[7], other, agent, lead=names[7])


def test_nobody_can_stand_behind_the_last_bucket() -> None:
    """If all others are in the last bucket, no new id is safe from a sticky leader."""
    last, early = by_bucket(32)[31], by_bucket(32)[0]
    assert not offers_safe_place(group(member(last), protocol="sticky"), "")
    assert offers_safe_place(group(member(last), protocol="range"), "")
    assert offers_safe_place(group(member(last), member(early), protocol="sticky"), "")


@given(st.lists(st.uuids().map(str), min_size=2, max_size=30, unique=True))
def test_the_first_of_the_leaders_table_is_always_exposed(ids: list[str]) -> None:
    """The first member in the table of a Java sticky leader counts as exposed, whatever the ids."""
    mask = buckets_for(len(ids)) - 1
    first = min(ids, key=lambda name: spread_hash(name) & mask)
    assert is_exposed(group(*(member(name) for name in ids), protocol="sticky"), first)


def test_well_behind_is_the_later_half() -> None:
    """At least half of the others come before a member that is well behind."""
    view = group(*(member(name) for name in "abcde"))
    assert [is_well_behind(view, name) for name in "abcdex"] == [False, False, True, True, True, False]


@pytest.mark.parametrize(
    ("leader", "instance", "unawares"),
    [
        ("samerack-1", "samerack", True),
        ("samerack-2", "samerack", False),
        ("samerack-1", None, False),
        ("x-1", "samerack", False),
        ("", "samerack", False),
    ],
)
def test_a_former_id_that_leads_is_the_agent_itself(leader: str, instance: str | None, *, unawares: bool) -> None:
    """Only an id of this instance outside the group is the agent's: other static leaders may be replaced too."""
    assert is_led_unknowingly(group(member("samerack-2"), member("y")), leader, instance) is unawares
