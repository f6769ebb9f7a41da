"""Compares day over day and week over week: the fleet, and the groups that changed most. Complete days only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.pipeline.report.figures import GROUP

_MISSING: Final = timedelta(hours=1)
"""A complete day may lack this much at each end."""
_WEEK: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySpans:
    """Two spans of days that are compared: `later` right after `earlier`, of equal length."""

    name: str
    earlier: tuple[date, ...]
    later: tuple[date, ...]


def whole(day: date, first: datetime, last: datetime) -> bool:
    """Return whether there are samples from the start of a day to its end."""
    begin = datetime(day.year, day.month, day.day, tzinfo=first.tzinfo)
    return first - begin <= _MISSING and begin + timedelta(days=1) - last <= _MISSING


def spans(days: Sequence[date]) -> tuple[DaySpans, ...]:
    """Return the comparisons that are possible at the end of these complete days."""
    present = set(days)
    found = []
    for name, length in (("day over day", 1), ("week over week", _WEEK)):
        if not present:
            break
        newest = max(present)
        later = tuple(newest - timedelta(days=back) for back in reversed(range(length)))
        earlier = tuple(day - timedelta(days=length) for day in later)
        if present.issuperset((*earlier, *later)):
            found.append(DaySpans(name=name, earlier=earlier, later=later))
    return tuple(found)


def movers(group_days: DataFrame, compared: DaySpans) -> DataFrame:
    """Return each group's dollars in both spans, largest change first: cluster, group, earlier, later, change."""

    def spent(days: Sequence[date]) -> Column:
        return F.sum(F.when(F.col("day").isin(list(days)), F.col("dollars")).otherwise(0.0))

    sums = group_days.groupBy(*GROUP).agg(
        spent(compared.earlier).alias("earlier"), spent(compared.later).alias("later")
    )
    moved = sums.withColumn("change", F.col("later") - F.col("earlier"))
    return moved.orderBy(F.desc(F.abs("change")), *GROUP)
