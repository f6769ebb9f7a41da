"""Each byte once: of those who counted a group side by side, one is believed in each minute.

The agents of one election count each byte once among them, so what they counted adds up, whoever of them it was. Agents
of different elections, or of none, count the same group side by side, each of them the whole group. One may know a rack
that another does not, so rows of two counts are never mixed within a minute: whoever has most bytes of the group in the
minute is believed, with its racks. Where one count follows another, the larger part of that minute counts.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from pipeline.report.figures import GROUP, GROUP_DAY
from pipeline.sums import total

_MINUTE: Final = (*GROUP_DAY, "minute")
_AT_ONCE: Final = 1.05
"""Counts in an average minute of a day: where one follows another there are less than this."""


def believed(traffic: DataFrame) -> DataFrame:
    """Of the days of a group that have more than one count: which to believe, minute by minute.

    Args:
        traffic: rows of `traffic_by_minute`; what older versions wrote is nobody's count.

    Returns:
        day, cluster, group, minute, believed (a `counted_by`), counts (how many there were).
    """
    # most groups have one count all day, and need no second look
    ends = F.min("counted_by") != F.max("counted_by")
    several = traffic.groupBy(*GROUP_DAY).agg(ends.alias("several")).where("several")
    theirs = traffic.where(F.col("counted_by").isNotNull()).join(several, [*GROUP_DAY], "left_semi")
    sums = theirs.groupBy(*_MINUTE, "counted_by").agg(total("bytes").alias("bytes"))
    return sums.groupBy(*_MINUTE).agg(
        F.max(F.struct("bytes", "counted_by"))["counted_by"].alias("believed"), F.count(F.lit(1)).alias("counts")
    )


def once(traffic: DataFrame, whom: DataFrame) -> DataFrame:
    """The rows that are believed, and those that are nobody's count.

    Args:
        traffic: rows of `traffic_by_minute`.
        whom: `believed` of the same rows.
    """
    other = F.coalesce(F.col("counted_by") != F.col("believed"), F.lit(False))  # noqa: FBT003 - a literal of Spark's
    return traffic.join(whom, [*_MINUTE], "left").where(~other).drop("believed", "counts")


def measured_twice(whom: DataFrame) -> DataFrame:
    """The groups that were counted side by side on some day: cluster, group."""
    days = whom.groupBy(*GROUP_DAY).agg(F.avg("counts").alias("at_once"))
    return days.where(F.col("at_once") >= _AT_ONCE).select(*GROUP).distinct()
