"""Converts rows of the report's frames to its values; only rows that are shown are collected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.money import SECONDS_PER_MONTH
from samerack.common.records import LEADING
from samerack.pipeline.report import figures, trends
from samerack.pipeline.report.figures import GROUP
from samerack.pipeline.report.fleet_report import Bad, GroupLine, Headline, Moment, Money, Mover, Pair, TopicLine, Trend
from samerack.pipeline.sums import total

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Value = TypeVar("_Value", bound="DataclassInstance")

UNIT_SECONDS: Final = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
_MAX_REASONS: Final = 50
_MAX_PAIRS: Final = 144
"""Twelve by twelve racks, as many as a page can show."""


def utc(naive: datetime) -> datetime:
    """Return a time in UTC: Spark collects timestamps as local time of this machine."""
    return naive.astimezone(UTC)


def headline(groups: DataFrame, scale: float) -> Headline:
    """Return the fleet's figures from `savings.by_group`; `scale` converts dollars of the period to a month."""
    counts = ("bytes", "crossing_bytes", "unknown_bytes", "exact_bytes", "judged_bytes")
    others = ("saved_bytes", "possible_bytes", "dollars")
    row = groups.agg(
        *(total(name).alias(name) for name in counts),
        *(F.sum(name).alias(name) for name in others),
        *(F.sum(f"{name}_dollars").alias(f"{name}_dollars") for name in ("saved", "possible")),
        F.count(F.lit(1)).alias("groups"),
        F.sum((F.col("role") == LEADING).cast("int")).alias("led_groups"),
        F.countDistinct("cluster").alias("clusters"),
    ).collect()[0]
    return Headline(
        **{name: row[name] for name in (*counts, *others, "groups", "clusters")},
        led_groups=row["led_groups"] or 0,
        share=_share(row),
        month=_money(row, scale),
    )


def _share(row: Row) -> float | None:
    known = row["bytes"] - row["unknown_bytes"]
    return row["crossing_bytes"] / known if known else None


def _money(row: Row, scale: float) -> Money:
    saved, possible = row["saved_dollars"], row["possible_dollars"]
    return Money(
        spent=row["dollars"] * scale,
        saved=None if saved is None else saved * scale,
        possible=None if possible is None else possible * scale,
    )


def pairs(daily: DataFrame) -> tuple[Pair, ...]:
    """Return the rack pairs with most bytes."""
    rows = figures.totals(daily, "client_rack", "replica_rack").orderBy(F.desc("bytes")).limit(_MAX_PAIRS).collect()
    return tuple(value_of(Pair, row) for row in rows)


def moment(row: Row, unit: str, seconds: Mapping[date, float]) -> Moment:
    """Return a moment of the timeline; a day that was measured in part counts at the rate of that part."""
    at = utc(row["moment"])
    length = min(UNIT_SECONDS[unit], seconds[at.date()]) if unit == "day" else UNIT_SECONDS[unit]
    return Moment(
        at=at,
        bytes=row["bytes"],
        crossing_bytes=row["crossing_bytes"],
        dollars_per_month=row["dollars"] / length * SECONDS_PER_MONTH,
    )


def by_savings(groups: DataFrame) -> DataFrame:
    """Return the groups with most saved and possible together."""
    # a negative saving counts as much as a positive one
    both = F.abs(F.coalesce("saved_dollars", F.lit(0.0))) + F.coalesce("possible_dollars", F.lit(0.0))
    return groups.withColumn("both", both).where(F.col("both") > 0).orderBy(F.desc("both"), *GROUP)


def lines(groups: DataFrame, top: int, scale: float) -> tuple[GroupLine, ...]:
    """Return the first `top` of these groups."""
    return tuple(
        value_of(
            GroupLine,
            row,
            kind=row["kind"] or "",
            assignor=row["assignor"] or "",
            share=_share(row),
            led=row["led_bytes"] / row["bytes"] if row["led_bytes"] is not None and row["bytes"] else None,
            month=_money(row, scale),
        )
        for row in groups.limit(top).collect()
    )


def topics(daily: DataFrame, top: int, scale: float) -> tuple[TopicLine, ...]:
    """Return the most expensive topics."""
    sums = daily.groupBy("cluster", "topic").agg(
        F.countDistinct("group").alias("groups"),
        *(total(name).alias(name) for name in ("bytes", "crossing_bytes")),
        F.sum("dollars").alias("dollars"),
    )
    rows = sums.orderBy(F.desc("dollars"), F.desc("bytes"), "cluster", "topic").limit(top).collect()
    return tuple(value_of(TopicLine, row, dollars_per_month=row["dollars"] * scale) for row in rows)


def trend(group_days: DataFrame, compared: trends.DaySpans, top: int) -> Trend:
    """Return two spans of days, and the groups that changed most."""
    moved = trends.movers(group_days, compared)
    sums = moved.agg(F.sum("earlier").alias("earlier"), F.sum("later").alias("later")).collect()[0]
    return Trend(
        name=compared.name,
        earlier_from=compared.earlier[0],
        later_from=compared.later[0],
        days=len(compared.later),
        earlier=sums["earlier"] or 0.0,
        later=sums["later"] or 0.0,
        movers=tuple(value_of(Mover, row) for row in moved.where(F.col("change") != 0).limit(top).collect()),
    )


def bad(quarantine: DataFrame) -> tuple[Bad, ...]:
    """Return counts of bad records, the most frequent reasons first, the rest in one: reasons may contain values."""
    counted = quarantine.groupBy("reason").agg(F.count(F.lit(1)).alias("records"))
    first = counted.orderBy(F.desc("records"), "reason").limit(_MAX_REASONS + 1).collect()
    shown = tuple(value_of(Bad, row) for row in first[:_MAX_REASONS])
    if len(first) == len(shown):
        return shown
    return (*shown, Bad(reason="other reasons", records=quarantine.count() - sum(one.records for one in shown)))


def failed(parts: DataFrame) -> dict[str, Any]:
    """Return the report's `failed` and `failure`."""
    wrong = parts.where(F.col("error").isNotNull())
    row = wrong.agg(F.countDistinct(*GROUP).alias("failed"), F.min("error").alias("failure")).collect()[0]
    return {"failed": row["failed"], "failure": row["failure"] or ""}


def value_of(made: type[_Value], row: Row, /, **more: Any) -> _Value:
    """Return a value of this type from the row's columns of the same names."""
    have = row.asDict()
    return made(**{one.name: have[one.name] for one in fields(made) if one.name not in more}, **more)
