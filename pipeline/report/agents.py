"""One agent for each group and minute: what several measured at once counts once, by the one that saw most of it.

Agents without a common election measure the same group side by side, each of them the whole group. One may know a rack
that another does not, so rows of two agents are never mixed within a minute: whoever counted most bytes of the group in
the minute is believed, with its racks. Where one agent takes over from another, the larger part of the minute counts.
What must not enter: states of groups, prices.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from pipeline.report.figures import GROUP, GROUP_DAY

_MINUTE: Final = (*GROUP_DAY, "minute")
_AT_ONCE: Final = 1.05
"""Agents in an average minute of a day: one that takes over from another makes less than this."""


def believed(traffic: DataFrame) -> DataFrame:
    """Of the days of a group that more than one agent measured: whom to believe, minute by minute.

    Args:
        traffic: rows of `traffic_by_minute`; rows without agent are of older versions, which had added up all agents.

    Returns:
        day, cluster, group, minute, believed (an agent), agents (how many there were).
    """
    # most groups have one agent all day, and need no second look
    shared = traffic.groupBy(*GROUP_DAY).agg((F.min("agent") != F.max("agent")).alias("shared")).where("shared")
    theirs = traffic.where(F.col("agent").isNotNull()).join(shared, [*GROUP_DAY], "left_semi")
    sums = theirs.groupBy(*_MINUTE, "agent").agg(F.sum("bytes").alias("bytes"))
    return sums.groupBy(*_MINUTE).agg(
        F.max(F.struct("bytes", "agent"))["agent"].alias("believed"), F.count(F.lit(1)).alias("agents")
    )


def once(traffic: DataFrame, whom: DataFrame) -> DataFrame:
    """The rows of the believed agents, and those without agent.

    Args:
        traffic: rows of `traffic_by_minute`.
        whom: `believed` of the same rows.
    """
    other = F.col("agent") != F.col("believed")  # null where there is no choice
    return traffic.join(whom, [*_MINUTE], "left").where(~F.coalesce(other, F.lit(False))).drop("believed", "agents")  # noqa: FBT003


def measured_twice(whom: DataFrame) -> DataFrame:
    """The groups that several agents measured at once on some day: cluster, group."""
    days = whom.groupBy(*GROUP_DAY).agg(F.avg("agents").alias("at_once"))
    return days.where(F.col("at_once") >= _AT_ONCE).select(*GROUP).distinct()
