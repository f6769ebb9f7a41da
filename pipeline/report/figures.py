"""Bytes and dollars by day, group, topic and rack pair: frame in, frame out.

What must not enter: states of groups beyond how many agents told of one, files, a session.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from common.money import PriceTable

GROUP: Final = ("cluster", "group")
GROUP_DAY: Final = ("day", *GROUP)
TWICE: Final = 1.05
"""Agents that tell of a group in an average minute of a day: one that takes over from another makes less than this."""


def known() -> Column:
    """Both racks are."""
    return (F.col("client_rack") != "") & (F.col("replica_rack") != "")


def crosses() -> Column:
    """From one known rack to another."""
    return known() & (F.col("client_rack") != F.col("replica_rack"))


def within(rows: DataFrame, first: date, last: date) -> DataFrame:
    """Rows of these days, both included."""
    return rows.where(F.col("day").between(F.lit(first), F.lit(last)))


def agents(states: DataFrame) -> DataFrame:
    """How many agents told of each group in an average minute of each day.

    Args:
        states: rows of `group_states`.

    Returns:
        day, cluster, group, agents.
    """
    by_minute = states.groupBy(*GROUP_DAY, F.date_trunc("minute", F.col("at")).alias("minute"))
    return (
        by_minute.agg(F.countDistinct("agent").alias("at_once"))
        .groupBy(*GROUP_DAY)
        .agg(F.avg("at_once").alias("agents"))
    )


def added_up(traffic: DataFrame, told_by: DataFrame, prices: PriceTable, *keys: str) -> DataFrame:
    """Bytes and dollars by day, group, racks and further columns.

    Samples carry no agent in the table: where several agents measured a group at once, its bytes are there as often as
    there were agents, and are divided by them.

    Args:
        traffic: rows of `traffic_by_minute`, with the further columns.
        told_by: `agents` of the same days.
        prices: what a byte costs that crosses.
        keys: the further columns.

    Returns:
        day, cluster, group, the further columns, client_rack, replica_rack, bytes, records, exact_bytes,
        crossing_bytes, unknown_bytes, dollars.
    """
    by = (*GROUP_DAY, *keys, "client_rack", "replica_rack")
    once = F.coalesce(F.when(F.col("agents") >= TWICE, F.col("agents")), F.lit(1.0))
    exact = F.sum(F.when(F.col("method") == "exact", F.col("bytes")).otherwise(0))
    sums = {"bytes": F.sum("bytes"), "records": F.sum("records"), "exact_bytes": exact}
    added = traffic.groupBy(*by).agg(*(total.alias(name) for name, total in sums.items()))
    shared = added.join(told_by, [*GROUP_DAY], "left")
    whole = shared.withColumns({name: F.round(F.col(name) / once).cast("long") for name in sums})
    return whole.select(
        *by,
        *sums,
        F.when(crosses(), F.col("bytes")).otherwise(0).alias("crossing_bytes"),
        F.when(~known(), F.col("bytes")).otherwise(0).alias("unknown_bytes"),
        F.when(crosses(), F.col("bytes") * prices.dollars_per_byte).otherwise(0.0).alias("dollars"),
    )


def totals(rows: DataFrame, *by: str) -> DataFrame:
    """Sums of `added_up` by some of its columns."""
    columns = ("bytes", "records", "exact_bytes", "crossing_bytes", "unknown_bytes", "dollars")
    return rows.groupBy(*by).agg(*(F.sum(name).alias(name) for name in columns))


def timeline(rows: DataFrame) -> DataFrame:
    """The fleet's bytes and dollars by `moment`, a further column of `added_up`: in order of time."""
    return totals(rows, "moment").orderBy("moment")


def covered(traffic: DataFrame) -> DataFrame:
    """First and last minute of each day that has any: day, first, last."""
    return traffic.groupBy("day").agg(F.min("minute").alias("first"), F.max("minute").alias("last")).orderBy("day")
