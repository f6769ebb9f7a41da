"""Computes what agents saved and still could save, by group and day: shares of chapters times bytes of the day.

Both shares of a saving come from the same states, so that measurement errors cancel out. Only chapters in which an
agent led the group count as saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.money import PriceTable
from samerack.common.records import LEADING
from samerack.pipeline.report.figures import COUNTS, GROUP, GROUP_DAY
from samerack.pipeline.sums import total

_FACTS: Final = ("kind", "assignor", "role", "members", "rackless", "random", "present", "possible")
"""Facts of a group, from its last chapter."""


def shares(chapters: DataFrame) -> DataFrame:
    """Return the chapters of a day as one row, each weighted by its number of states.

    Returns:
        day, cluster, group, led (part of the day), gained and open (shares of known bytes), kind, assignor, members,
        rackless, random (as at the end of the day).
    """
    good = chapters.where(F.col("error").isNull())
    led = F.col("role") == LEADING
    gained = F.when(led, F.coalesce(F.col("own") - F.col("present"), F.lit(0.0))).otherwise(0.0)
    missed = F.coalesce(F.col("present") - F.col("possible"), F.lit(0.0))
    states = F.sum("states")
    return good.groupBy(*GROUP_DAY).agg(
        (F.sum(F.when(led, F.col("states")).otherwise(0)) / states).alias("led"),
        (F.sum(gained * F.col("states")) / states).alias("gained"),
        (F.sum(missed * F.col("states")) / states).alias("open"),
        *(F.max_by(name, "first").alias(name) for name in _FACTS),
    )


def by_group_day(days: DataFrame, shared: DataFrame, prices: PriceTable) -> DataFrame:
    """Return saved and possible bytes and dollars of each group and day.

    Args:
        days: `figures.totals` by day, cluster and group.
        shared: `shares`.
        prices: the price of a cross-rack byte.

    Returns:
        the columns of both, saved_bytes, possible_bytes, saved_dollars, possible_dollars; null without states.
    """
    of_known = F.col("bytes") - F.col("unknown_bytes")
    saved = of_known * F.col("gained")
    # no more can be saved than was measured; `least` ignores null, so it must not decide where states are missing
    least = F.least(of_known * F.col("open"), F.col("crossing_bytes").cast("double"))
    possible = F.when(F.col("open").isNotNull(), least)
    joined = days.join(shared, [*GROUP_DAY], "left")
    return joined.withColumns({"saved_bytes": saved, "possible_bytes": possible}).withColumns(
        {
            "saved_dollars": F.col("saved_bytes") * prices.dollars_per_byte,
            "possible_dollars": F.col("possible_bytes") * prices.dollars_per_byte,
        }
    )


def by_group(group_days: DataFrame, prices: PriceTable) -> DataFrame:
    """Return the sums of every group over the period, with its last kind, assignor and members.

    Saved is what was saved in the period. Possible is what the last plan leaves to be saved, applied to the bytes of
    the period: savings reached during the period are no longer possible.
    """
    day_of_state = F.when(F.col("kind").isNotNull(), F.col("day"))
    sums = summed(group_days, *GROUP, more=[F.max_by(name, day_of_state).alias(name) for name in _FACTS]).drop("groups")
    still = F.coalesce(F.col("present") - F.col("possible"), F.lit(0.0)) * (F.col("bytes") - F.col("unknown_bytes"))
    return sums.withColumn("possible_bytes", F.when(F.col("kind").isNotNull(), still)).withColumn(
        "possible_dollars", F.col("possible_bytes") * prices.dollars_per_byte
    )


def summed(rows: DataFrame, *by: str, more: Sequence[Column] = ()) -> DataFrame:
    """Return the sums of `by_group_day` by some of its columns."""
    judged = ("dollars", "saved_bytes", "possible_bytes", "saved_dollars", "possible_dollars")
    return rows.groupBy(*by).agg(
        F.countDistinct(*GROUP).alias("groups"),
        *(total(name).alias(name) for name in COUNTS),
        *(F.sum(name).alias(name) for name in judged),
        total(F.when(F.col("gained").isNotNull(), F.col("bytes")).otherwise(0)).alias("judged_bytes"),
        F.sum(F.col("led") * F.col("bytes")).alias("led_bytes"),
        *more,
    )
