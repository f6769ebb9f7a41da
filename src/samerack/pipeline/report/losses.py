"""Finds groups that lost rack awareness: when, why as far as states show it, and what a month of it costs.

A loss is a moment at which a group's share of cross-rack bytes rose, and either another change explains the rise, or
the share is now about as high as with a placement that ignores racks.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.money import SECONDS_PER_MONTH, PriceTable
from samerack.common.records import LEADING
from samerack.pipeline.report.figures import GROUP

MIN_RISE: Final = 0.05
"""Share of all bytes: smaller changes are normal variation."""
ABOUT_RANDOM: Final = 0.85
"""Part of the random share: a group that is still rack-aware stays below it."""

FORGOT: Final = "members without rack"
UNSENT: Final = "members no longer send their rack"
UNFETCHED: Final = "members no longer fetch with their rack"
KIP_848: Final = "moved to KIP-848, whose assignors know no racks"
PROTOCOL: Final = "assignor changed"
UNLED: Final = "the agent no longer leads"
ROSE: Final = "replicas or members moved"

_REMEMBERED: Final = ("kind", "assignor", "role", "members", "rackless", "sending", "fetching", "expected")


def losses(chapters: DataFrame, groups: DataFrame, seconds: float, prices: PriceTable) -> DataFrame:
    """Return one row for each loss, the most expensive first.

    Args:
        chapters: rows of `chapters.CHAPTER`.
        groups: `savings.by_group`, for the bytes that each group reads.
        seconds: length of the period of `groups`.
        prices: the price of a cross-rack byte.

    Returns:
        cluster, group, at, cause, kind, assignor, before, after, random (shares), now (share at the end of the period),
        lasts, dollars_per_month.
    """
    in_time = Window.partitionBy(*GROUP).orderBy("day", "first")
    good = chapters.where(F.col("error").isNull() & F.col("expected").isNotNull())
    to_the_end = in_time.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    changed = good.withColumns(
        {
            **{f"{name}_before": F.lag(name).over(in_time) for name in _REMEMBERED},
            "now": F.last("expected").over(to_the_end),
        }
    )
    lost = changed.where(_rose() & (_cause() != "")).select(
        *GROUP,
        F.col("first").alias("at"),
        _cause().alias("cause"),
        "kind",
        "assignor",
        F.col("expected_before").alias("before"),
        F.col("expected").alias("after"),
        "random",
        "now",
        (F.col("now") > F.col("expected_before") + MIN_RISE).alias("lasts"),
    )
    rate = F.col("bytes") / seconds
    month = rate * (F.col("after") - F.col("before")) * prices.dollars_per_byte * SECONDS_PER_MONTH
    priced = lost.join(groups.select(*GROUP, "bytes"), [*GROUP]).withColumn("dollars_per_month", month)
    return priced.drop("bytes").orderBy(F.desc("dollars_per_month"), *GROUP, "at")


def _rose() -> Column:
    return F.col("expected") - F.col("expected_before") >= MIN_RISE


def _about_random() -> Column:
    return (F.col("random") > 0) & (F.col("expected") >= F.col("random") * ABOUT_RANDOM)


def _cause() -> Column:
    """Return the first cause that holds, the strongest explanation first; empty for a rise that is no loss."""

    def share(name: str, when: str = "") -> Column:
        return F.col(f"{name}{when}") / F.col(f"members{when}")

    causes = (
        ((F.col("kind") == "consumer") & (F.col("kind_before") != "consumer"), KIP_848),
        (share("rackless") > share("rackless", "_before"), FORGOT),
        # null, so never true, where an older agent did not say which members send their rack
        (share("sending") < share("sending", "_before"), UNSENT),
        (share("fetching") < share("fetching", "_before"), UNFETCHED),
        ((F.col("role_before") == LEADING) & (F.col("role") != LEADING), UNLED),
        ((F.col("assignor") != F.col("assignor_before")) & (F.col("assignor") != ""), PROTOCOL),
        (_about_random(), ROSE),
    )
    found = F.lit("")
    for holds, cause in reversed(causes):
        found = F.when(holds, cause).otherwise(found)
    return found
