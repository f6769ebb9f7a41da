"""The lag of groups: what is known, what is not, and what no partition may hide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.lag import lag_by_key, lag_of_all, lag_records, lag_seconds, oldest_by_key, oldest_of_all
from samerack.traffic.timeline import extend


@pytest.mark.parametrize(
    ("start", "end", "committed", "lag"),
    [
        (0, 10, 4, 6),
        (0, 10, 10, 0),
        (0, 10, 12, 0),  # the commit came after the end was asked for
        (5, 10, 2, 8),  # retention deleted records: as Kafka's tools have it
        (0, 10, None, None),
        (7, 7, None, 0),  # nothing is there to be read
    ],
)
def test_a_partition(start: int, end: int, committed: int | None, lag: int | None) -> None:
    """The high watermark less the committed offset; without a commit it is known of an empty partition only."""
    assert lag_records(start, end, committed) == lag


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 100))))
def test_a_topic_is_known_when_all_its_partitions_are(partitions: list[tuple[str, int | None]]) -> None:
    """It is their sum then, and None as soon as one is not known."""
    lags = lag_by_key(partitions)
    assert lags.keys() == {topic for topic, _ in partitions}
    for topic, lag in lags.items():
        own = [lag for one, lag in partitions if one == topic]
        assert lag == (None if None in own else sum(each for each in own if each is not None))


def test_a_group_without_topics_has_no_lag() -> None:
    """It is not known, and not 0."""
    assert lag_of_all([]) is None
    assert lag_of_all([1, None]) is None
    assert lag_of_all([1, 2]) == 3


@pytest.mark.parametrize(
    ("records", "committed", "age"),
    [
        (0, 20, 0.0),
        (0, None, 0.0),  # an empty partition
        (10, 10, 5.0),
        (15, 5, None),  # written before the first poll
        (None, None, None),
        (3, None, None),
    ],
)
def test_the_age_of_a_partition(records: int | None, committed: int | None, age: float | None) -> None:
    """The oldest record that is not read is as old as polls show; 0 without lag, and unknown before the first poll."""
    timeline = extend(extend(None, at=100, end=10), at=105, end=20)
    assert lag_seconds(records, committed, timeline, now=105) == age
    assert lag_seconds(records, committed, None, now=105) == (0.0 if records == 0 else None)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.floats(0, 100))))
def test_the_age_of_a_topic_is_the_largest(partitions: list[tuple[str, float | None]]) -> None:
    """It is None as soon as one is not known: that one may be older."""
    ages = oldest_by_key(partitions)
    assert ages.keys() == {topic for topic, _ in partitions}
    for topic, age in ages.items():
        own = [age for one, age in partitions if one == topic]
        assert age == (None if None in own else max(each for each in own if each is not None))
    assert oldest_of_all([]) is None
