"""How many records a group has not read yet, and how old the oldest of them is, by partition and topic.

The lag of a partition is its high watermark less the committed offset, as Kafka's own tools have it. That of a
partition without a committed offset is not known unless it is empty: whether the group will begin at its start or at
its end is a setting of its consumers.

In seconds the lag of a partition is the age of its oldest record that the group has not read: the time since the end of
the log passed the committed offset. That of a topic, a member or a group is the largest of its partitions. The time is
that of the brokers' logs, as polls saw it, not the timestamp in the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from samerack.traffic.timeline import Timeline, age_of

Key = TypeVar("Key")


def lag_records(start: int, end: int, committed: int | None) -> int | None:
    """Return the lag of a partition from its first offset, its high watermark and the committed offset, if any."""
    if committed is None:
        return 0 if start == end else None
    return max(0, end - committed)


def lag_seconds(records: int | None, committed: int | None, timeline: Timeline | None, *, now: float) -> float | None:
    """Return the age of the oldest record that is not read, off by at most what `timeline.age_of` says.

    `records` is the lag in records, `now` the monotonic time of the last poll. Return 0 where nothing is left to be
    read; None where the lag in records is not known, and where the record was written before the timeline begins: it
    may be of any age then.
    """
    if not records:
        return None if records is None else 0.0
    return None if committed is None or timeline is None else age_of(timeline, committed, now=now)


def lag_by_key(lags: Iterable[tuple[Key, int | None]]) -> dict[Key, int | None]:
    """Return the sum of each key, such as a topic; None where one of its lags is not known."""
    sums: dict[Key, int | None] = {}
    for key, lag in lags:
        before = sums.get(key, 0)
        sums[key] = None if lag is None or before is None else before + lag
    return sums


def lag_of_all(lags: Iterable[int | None]) -> int | None:
    """Return the sum; None where one is not known, and where there is none."""
    return lag_by_key(("all", lag) for lag in lags).get("all")


def oldest_by_key(ages: Iterable[tuple[Key, float | None]]) -> dict[Key, float | None]:
    """Return the largest age of each key, such as a topic; None where one of its ages is not known."""
    largest: dict[Key, float | None] = {}
    for key, age in ages:
        before = largest.get(key, 0.0)
        largest[key] = None if age is None or before is None else max(before, age)
    return largest


def oldest_of_all(ages: Iterable[float | None]) -> float | None:
    """Return the largest; None where one is not known, and where there is none."""
    return oldest_by_key(("all", age) for age in ages).get("all")
