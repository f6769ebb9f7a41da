"""Computes the report's figures, frame in, frame out: bytes and dollars, savings, and losses of rack awareness.

Saved and possible are shares of a day's chapters times bytes of the day. Both shares of a saving come from the same
states, so that measurement errors cancel out. Only chapters in which an agent led the group count as saved.

A loss is a moment at which a group's share of cross-rack bytes rose, and either another change explains the rise, or
the share is now about as high as with a placement that ignores racks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.money import SECONDS_PER_MONTH, PriceTable
from samerack.common.records import LEADING
from samerack.pipeline.days import GROUP, GROUP_DAY, SUMS
from samerack.pipeline.schema import total

COUNTS: Final = (*SUMS, "crossing_bytes", "unknown_bytes")
PRICED: Final = (*COUNTS, "dollars")

_AT_ONCE: Final = 1.05
"""Average number of counts in the minutes of a day: there are fewer where one count only replaced another."""
_FACTS: Final = ("kind", "assignor", "role", "members", "rackless", "random")
"""Facts of a group, from its last chapter."""
_READS: Final = ("present", "possible")
"""Facts of what a group reads, from the last chapter in which it had members, and known racks."""

_MIN_RISE: Final = 0.05
"""Share of all bytes: smaller changes are normal variation."""
_ABOUT_RANDOM: Final = 0.85
"""Part of the random share: a group that is still rack-aware stays below it."""

FORGOT: Final = "members without rack"
UNSENT: Final = "members no longer send their rack"
UNFETCHED: Final = "members no longer fetch with their rack"
KIP_848: Final = "moved to KIP-848, whose assignors know no racks"
PROTOCOL: Final = "assignor changed"
UNLED: Final = "the agent no longer leads"
ROSE: Final = "replicas or members moved"

_REMEMBERED: Final = ("kind", "assignor", "role", "members", "rackless", "sending", "fetching", "expected")


def _known() -> Column:
    """Return whether both racks are known."""
    return (F.col("client_rack") != "") & (F.col("replica_rack") != "")


def _crosses() -> Column:
    """Return whether the bytes go from one known rack to another."""
    return _known() & (F.col("client_rack") != F.col("replica_rack"))


def priced(rows: DataFrame, prices: PriceTable) -> DataFrame:
    """Return sums of bytes by racks, with crossing_bytes, unknown_bytes and dollars."""
    return rows.withColumns(
        {
            "crossing_bytes": F.when(_crosses(), F.col("bytes")).otherwise(0),
            "unknown_bytes": F.when(~_known(), F.col("bytes")).otherwise(0),
            "dollars": F.when(_crosses(), F.col("bytes") * prices.dollars_per_byte).otherwise(0.0),
        }
    )


def totals(rows: DataFrame, *by: str) -> DataFrame:
    """Return sums of `priced` by some of its columns."""
    return rows.groupBy(*by).agg(*(total(name).alias(name) for name in COUNTS), F.sum("dollars").alias("dollars"))


def measured_twice(rows: DataFrame) -> DataFrame:
    """Return the groups with several counts at the same time on some day, of rows by day: cluster, group."""
    return rows.where(F.col("counts") >= _AT_ONCE).select(*GROUP).distinct()


def shares(chapters: DataFrame) -> DataFrame:
    """Return the chapters of a day as one row, each weighted by its minutes: those with members, and known racks.

    Returns:
        day, cluster, group, led (part of the time with members), gained and open (shares of known bytes), present and
        possible (as last known); these are null without any; kind, assignor, members, rackless, random (as at the end
        of the day).
    """
    good = chapters.where(F.col("error").isNull())
    with_members = F.when(F.col("members") > 0, F.col("minutes"))
    reads = F.col("present").isNotNull()
    weight = F.when(reads, F.col("minutes"))
    led = F.col("role") == LEADING
    gained = F.when(led, F.coalesce(F.col("own") - F.col("present"), F.lit(0.0))).otherwise(0.0)
    missed = F.col("present") - F.col("possible")
    return good.groupBy(*GROUP_DAY).agg(
        (F.sum(led.cast("int") * with_members) / F.sum(with_members)).alias("led"),
        (F.sum(gained * weight) / F.sum(weight)).alias("gained"),
        (F.sum(missed * weight) / F.sum(weight)).alias("open"),
        *(F.max_by(name, "last").alias(name) for name in _FACTS),
        *(F.max_by(name, F.when(reads, F.col("last"))).alias(name) for name in _READS),
    )


def by_group_day(days: DataFrame, shared: DataFrame, prices: PriceTable) -> DataFrame:
    """Return saved and possible bytes and dollars of each group and day.

    Args:
        days: `totals` by day, cluster and group.
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
    last = [
        F.max_by(name, F.when(F.col(of).isNotNull(), F.col("day"))).alias(name)
        for names, of in ((_FACTS, "kind"), (_READS, "present"))
        for name in names
    ]
    still = (F.col("present") - F.col("possible")) * (F.col("bytes") - F.col("unknown_bytes"))
    sums = summed(group_days, *GROUP, more=last).drop("groups").withColumn("possible_bytes", still)
    return sums.withColumn("possible_dollars", F.col("possible_bytes") * prices.dollars_per_byte)


def summed(rows: DataFrame, *by: str, more: Sequence[Column] = ()) -> DataFrame:
    """Return the sums of `by_group_day` by some of its columns."""
    judged = ("dollars", "saved_bytes", "possible_bytes", "saved_dollars", "possible_dollars")
    return rows.groupBy(*by).agg(
        F.countDistinct(*GROUP).alias("groups"),
        *(total(name).alias(name) for name in COUNTS),
        *(F.sum(name).alias(name) for name in judged),
        total(F.when(F.col("gained").isNotNull(), F.col("bytes")).otherwise(0)).alias("judged_bytes"),
        F.try_divide(
            F.sum(F.col("led") * F.col("bytes")), F.sum(F.when(F.col("led").isNotNull(), F.col("bytes")))
        ).alias("led"),
        *more,
    )


def losses(chapters: DataFrame, groups: DataFrame, seconds: float, prices: PriceTable) -> DataFrame:
    """Return one row for each loss, the most expensive first; of one cause the last of each day.

    Args:
        chapters: rows of `chapters.CHAPTER`.
        groups: `by_group`, for the bytes that each group reads.
        seconds: length of the period of `groups`.
        prices: the price of a cross-rack byte.

    Returns:
        cluster, group, at, cause, kind, assignor, before, after, random (shares), now (share at the end of the period),
        lasts, dollars_per_month.
    """
    in_time = Window.partitionBy(*GROUP).orderBy("day", "first")
    good = chapters.where(F.col("error").isNull() & F.col("expected").isNotNull())
    changed = good.withColumns(
        {
            **{f"{name}_before": F.lag(name).over(in_time) for name in _REMEMBERED},
            "now": F.max_by("expected", "first").over(Window.partitionBy(*GROUP)),
        }
    )
    rises = changed.where(_rose()).withColumn("cause", _cause()).where(F.col("cause") != "")
    later = Window.partitionBy(*GROUP_DAY, "cause").orderBy(F.desc("first"))
    lost = (
        rises.withColumn("later", F.row_number().over(later))
        .where("later = 1")
        .select(
            *GROUP,
            F.col("first").alias("at"),
            "cause",
            "kind",
            "assignor",
            F.col("expected_before").alias("before"),
            F.col("expected").alias("after"),
            "random",
            "now",
            (F.col("now") > F.col("expected_before") + _MIN_RISE).alias("lasts"),
        )
    )
    rate = F.col("bytes") / seconds
    month = rate * (F.col("after") - F.col("before")) * prices.dollars_per_byte * SECONDS_PER_MONTH
    priced = lost.join(groups.select(*GROUP, "bytes"), [*GROUP]).withColumn("dollars_per_month", month)
    return priced.drop("bytes").orderBy(F.desc("dollars_per_month"), *GROUP, "at")


def _rose() -> Column:
    return F.col("expected") - F.col("expected_before") >= _MIN_RISE


def _about_random() -> Column:
    return (F.col("random") > 0) & (F.col("expected") >= F.col("random") * _ABOUT_RANDOM)


def _cause() -> Column:
    """Return the first cause that holds, the strongest explanation first; empty for a rise that is not a loss."""

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
