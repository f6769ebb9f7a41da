"""The lag of groups: what is known, what is not, and what no partition may hide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.lag import (
    extend_timeline,
    lag_by_key,
    lag_of_all,
    lag_records,
    lag_seconds,
    oldest_by_key,
    oldest_of_all,
)
from samerack.traffic.snapshot import LowerBound


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


@pytest.mark.parametrize(
    ("by_key", "of_all", "fold"), [(lag_by_key, lag_of_all, sum), (oldest_by_key, oldest_of_all, max)]
)
@given(partitions=st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 100))))
def test_what_is_known_of_a_topic_is_a_lower_bound(
    partitions: list[tuple[str, int | None]],
    by_key: Callable[[Any], Mapping[str, LowerBound[int]]],
    of_all: Callable[[Any], LowerBound[int]],
    fold: Callable[[Any], int],
) -> None:
    """Its lag is the sum, and its age the largest, of what is known; beside it is the number of what is not.

    The same of a group's topics.
    """
    found = by_key(partitions)
    assert found.keys() == {topic for topic, _ in partitions}
    for topic, bound in found.items():
        own = [one for key, one in partitions if key == topic]
        known = [one for one in own if one is not None]
        assert bound == of_all(own) == LowerBound(value=fold(known) if known else None, unknown=own.count(None))
    assert of_all(found.values()) == of_all([one for _, one in partitions])
    assert of_all([]) == LowerBound()


def test_one_unknown_partition_hides_no_other() -> None:
    """Eleven partitions lag a million records each, and one of twelve has no commit yet."""
    lags = [*(lag_records(0, 1_000_000, 0) for _ in range(11)), lag_records(0, 1_000_000, None)]
    assert lag_of_all(lags) == LowerBound(value=11_000_000, unknown=1)


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
    timeline = extend_timeline(extend_timeline(None, at=100, end=10), at=105, end=20)
    assert lag_seconds(records, committed, timeline, now=105) == age
    assert lag_seconds(records, committed, None, now=105) == (0.0 if records == 0 else None)
