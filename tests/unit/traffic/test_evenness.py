"""The topic of which one member has the most, and the member that reads most."""

from __future__ import annotations

import pytest

from samerack.traffic.evenness import BusiestMember, TopicShare, busiest, topic_share

BOTH = {"m-1": ["a", "b"], "m-2": ["a", "b"]}


def test_the_topic_that_is_most_beyond_what_must_be() -> None:
    """A member with all of one topic counts more than one with three of four of another."""
    owned = [("m-1", "a")] * 3 + [("m-2", "a")] + [("m-2", "b")] * 2
    assert topic_share(owned, BOTH) == TopicShare(topic="b", member="m-2", share=1.0, least=0.5)


def test_whole_partitions_make_some_share_unavoidable() -> None:
    """Of three partitions one of two members must have two."""
    found = topic_share([("m-1", "a"), ("m-1", "a"), ("m-2", "a")], BOTH)
    assert found == TopicShare(topic="a", member="m-1", share=2 / 3, least=2 / 3)


@pytest.mark.parametrize(
    ("owned", "subscriptions"),
    [
        ([], BOTH),
        ([("m-1", "a"), ("m-2", "b")], BOTH),
        ([("m-1", "a"), ("m-1", "a")], {"m-1": ["a"], "m-2": ["b"]}),
    ],
)
def test_what_nobody_can_share_is_no_topic(owned: list[tuple[str, str]], subscriptions: dict[str, list[str]]) -> None:
    """A topic with one partition, or with one reader, does not count."""
    assert topic_share(owned, subscriptions) is None


def test_the_busiest_member_is_held_against_the_mean() -> None:
    """A member without partitions counts in the mean."""
    found = busiest([("m-1", 30.0), ("m-1", 30.0), ("m-2", 30.0)], ["m-1", "m-2", "m-3"])
    assert found == BusiestMember(member="m-1", bytes_per_second=60.0, mean=30.0)
    assert found.times_mean == 2


@pytest.mark.parametrize(
    "rates", [[("m-1", 1.0), ("m-2", None)], [("m-1", 0.0), ("m-2", 0.0)], [("m-1", 1.0), ("gone", 1.0)], []]
)
def test_what_is_not_known_has_no_busiest_member(rates: list[tuple[str, float | None]]) -> None:
    """A rate that is not measured, no reads, and an owner that is no member give none."""
    assert busiest(rates, ["m-1", "m-2"]) is None


def test_one_member_is_not_busier_than_others() -> None:
    """A single member is not compared."""
    assert busiest([("m-1", 1.0)], ["m-1"]) is None
