"""Counts each byte once: of several counts of the same group, one is used in each minute.

The agents of one election together count each byte once, so their counts are summed. Agents of different elections, or
of none, each count the whole group at the same time. One may know a rack that another does not, so rows of two counts
are never mixed within a minute: the count with most bytes of the group in the minute is used, with its racks. Where one
count replaces another within a minute, only the larger part of that minute counts.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.pipeline.report.figures import GROUP, GROUP_DAY
from samerack.pipeline.sums import total

_MINUTE: Final = (*GROUP_DAY, "minute")
_AT_ONCE: Final = 1.05
"""Average number of counts in the minutes of a day: there are fewer where one count only replaced another."""


def believed(traffic: DataFrame) -> DataFrame:
    """Return which count to use in each minute, for a group's days that have more than one count.

    Args:
        traffic: rows of `traffic_by_minute`; rows of older versions belong to no count.

    Returns:
        day, cluster, group, minute, believed (a `counted_by`), counts (how many there were).
    """
    # most groups have one count all day and need no further work; a minimum of texts would sort all rows
    counts = traffic.where(F.col("counted_by").isNotNull()).select(*GROUP_DAY, "counted_by").distinct()
    several = counts.groupBy(*GROUP_DAY).agg(F.count(F.lit(1)).alias("counts")).where(F.col("counts") > 1)
    theirs = traffic.where(F.col("counted_by").isNotNull()).join(several, [*GROUP_DAY], "left_semi")
    sums = theirs.groupBy(*_MINUTE, "counted_by").agg(total("bytes").alias("bytes"))
    return sums.groupBy(*_MINUTE).agg(
        F.max(F.struct("bytes", "counted_by"))["counted_by"].alias("believed"), F.count(F.lit(1)).alias("counts")
    )


def once(traffic: DataFrame, whom: DataFrame) -> DataFrame:
    """Return the rows of the counts in use, and the rows that belong to no count.

    Args:
        traffic: rows of `traffic_by_minute`.
        whom: `believed` of the same rows.
    """
    other = F.coalesce(F.col("counted_by") != F.col("believed"), F.lit(False))  # noqa: FBT003 - a literal of Spark's
    return traffic.join(whom, [*_MINUTE], "left").where(~other).drop("believed", "counts")


def measured_twice(whom: DataFrame) -> DataFrame:
    """Return the groups with several counts at the same time on some day: cluster, group."""
    days = whom.groupBy(*GROUP_DAY).agg(F.avg("counts").alias("at_once"))
    return days.where(F.col("at_once") >= _AT_ONCE).select(*GROUP).distinct()
