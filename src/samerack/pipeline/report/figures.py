"""Computes bytes and dollars by day, group, topic and rack pair: frame in, frame out."""

from __future__ import annotations

from datetime import date
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.money import PriceTable
from samerack.pipeline.sums import total

GROUP: Final = ("cluster", "group")
GROUP_DAY: Final = ("day", *GROUP)
COUNTS: Final = ("bytes", "records", "exact_bytes", "crossing_bytes", "unknown_bytes")
SUMS: Final = (*COUNTS, "dollars")


def known() -> Column:
    """Return whether both racks are known."""
    return (F.col("client_rack") != "") & (F.col("replica_rack") != "")


def crosses() -> Column:
    """Return whether the bytes go from one known rack to another."""
    return known() & (F.col("client_rack") != F.col("replica_rack"))


def within(rows: DataFrame, first: date, last: date) -> DataFrame:
    """Return the rows of these days, both included."""
    return rows.where(F.col("day").between(F.lit(first), F.lit(last)))


def added_up(traffic: DataFrame, prices: PriceTable, *keys: str) -> DataFrame:
    """Return bytes and dollars by some columns and racks.

    Args:
        traffic: rows of `traffic_by_minute` that count, with the columns.
        prices: the price of a cross-rack byte.
        keys: the columns.

    Returns:
        the columns, client_rack, replica_rack, bytes, records, exact_bytes, crossing_bytes, unknown_bytes, dollars.
    """
    by = (*keys, "client_rack", "replica_rack")
    exact = total(F.when(F.col("method") == "exact", F.col("bytes")).otherwise(0))
    sums = {"bytes": total("bytes"), "records": total("records"), "exact_bytes": exact}
    added = traffic.groupBy(*by).agg(*(one.alias(name) for name, one in sums.items()))
    return added.select(
        *by,
        *sums,
        F.when(crosses(), F.col("bytes")).otherwise(0).alias("crossing_bytes"),
        F.when(~known(), F.col("bytes")).otherwise(0).alias("unknown_bytes"),
        F.when(crosses(), F.col("bytes") * prices.dollars_per_byte).otherwise(0.0).alias("dollars"),
    )


def totals(rows: DataFrame, *by: str) -> DataFrame:
    """Return sums of `added_up` by some of its columns."""
    return rows.groupBy(*by).agg(*(total(name).alias(name) for name in COUNTS), F.sum("dollars").alias("dollars"))


def covered(traffic: DataFrame) -> DataFrame:
    """Return the first and last minute of each day that has any: day, first, last."""
    return traffic.groupBy("day").agg(F.min("minute").alias("first"), F.max("minute").alias("last")).orderBy("day")
