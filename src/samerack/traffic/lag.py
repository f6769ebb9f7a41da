"""How many records a group has not read yet, and how old the oldest of them is, by partition and topic.

The lag of a partition is its high watermark less the committed offset, as Kafka's own tools have it. That of a
partition without a committed offset is not known unless it is empty: whether the group will begin at its start or at
its end is a setting of its consumers.

In seconds the lag of a partition is the age of its oldest record that the group has not read: the time since the end of
the log passed the committed offset. The time is that of the brokers' logs, as polls saw it, not the timestamp in the
record.

That of a topic, a member or a group is the sum of its partitions, in seconds the largest. One partition that is not
known hides none of the others: the figure is a lower bound then, and has the number of such partitions beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import add
from typing import Final, TypeVar

from samerack.traffic.lower_bound import LowerBound, Number, Part
from samerack.traffic.timeline import Timeline, age_of

Key = TypeVar("Key")

NO_LAG: Final = LowerBound(value=0)
"""Everything was read."""


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


def lag_by_key(lags: Iterable[tuple[Key, Part[int]]]) -> dict[Key, LowerBound[int]]:
    """Return the sum of each key, such as a topic."""
    return _by_key(lags, add)


def lag_of_all(lags: Iterable[Part[int]]) -> LowerBound[int]:
    """Return the sum."""
    return lag_by_key(("all", lag) for lag in lags).get("all", LowerBound())


def oldest_by_key(ages: Iterable[tuple[Key, Part[float]]]) -> dict[Key, LowerBound[float]]:
    """Return the largest age of each key, such as a topic."""
    return _by_key(ages, max)


def oldest_of_all(ages: Iterable[Part[float]]) -> LowerBound[float]:
    """Return the largest."""
    return oldest_by_key(("all", age) for age in ages).get("all", LowerBound())


def _by_key(
    parts: Iterable[tuple[Key, Part[Number]]], fold: Callable[[Number, Number], Number]
) -> dict[Key, LowerBound[Number]]:
    values: dict[Key, Number | None] = {}
    unknown: dict[Key, int] = {}
    for key, part in parts:
        value, missing = (part.value, part.unknown) if isinstance(part, LowerBound) else (part, int(part is None))
        before = values.get(key)
        values[key] = value if before is None else before if value is None else fold(before, value)
        unknown[key] = unknown.get(key, 0) + missing
    return {key: LowerBound(value=value, unknown=unknown[key]) for key, value in values.items()}
