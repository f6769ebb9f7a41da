"""From the tables to the report: what is asked of Spark, and in which order; only what is shown is collected.

What must not enter: how figures are worked out (`figures`, `chapters`, `savings`, `losses`, `trends`), files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from common.errors import AgentError
from common.money import SECONDS_PER_MONTH, PriceTable
from pipeline.report import chapters, figures, losses, once, savings, trends
from pipeline.report.figures import GROUP, GROUP_DAY
from pipeline.report.model import (
    Bad,
    Day,
    GroupLine,
    Headline,
    Loss,
    Moment,
    Money,
    Mover,
    Pair,
    Period,
    Report,
    TopicLine,
    Trend,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Value = TypeVar("_Value", bound="DataclassInstance")

_MINUTE: Final = 60.0
_UNITS: Final = (("minute", 3 * 3600.0), ("hour", 4 * 86400.0), ("day", float("inf")))
"""How the timeline is drawn, by the longest period of each."""
_UNIT_SECONDS: Final = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
_MOST_PAIRS: Final = 144
"""Twelve racks by twelve: what a page can show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What the pipeline keeps."""

    traffic: DataFrame
    states: DataFrame
    quarantine: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a report is to be about.

    Attributes:
        first: first day; without it `most_days` up to the last, or all.
        last: last day; without it the newest that there is.
        most_days: how many days at most, where no first day is given.
        top: how many groups, topics and losses are shown.
    """

    first: date | None = None
    last: date | None = None
    most_days: int | None = None
    top: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The report, and the frames that it was made of: name to frame, for files."""

    report: Report
    frames: Mapping[str, DataFrame]
    days: tuple[date, ...]


@contextmanager
def gathered(
    tables: Tables,
    prices: PriceTable,
    asked: Asked,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Gathered]:
    """The report of a period; the frames are good within the block.

    Args:
        tables: the tables.
        prices: what a byte costs that crosses.
        asked: what is wanted.
        progress: told what is being done.

    Raises:
        AgentError: there is nothing in the period.
    """
    first, last = _days(tables.traffic, asked)
    top = asked.top
    progress(f"adding up {first} to {last}")
    with ExitStack() as stack:

        def kept(frame: DataFrame) -> DataFrame:
            frame.persist()
            stack.callback(frame.unpersist)
            return frame

        told = figures.within(tables.traffic, first, last)
        states = figures.within(tables.states, first, last)
        period, seconds, whole = _period(told, first, last)
        whom = kept(once.believed(told))
        traffic = once.once(told, whom)
        daily = kept(figures.added_up(traffic, prices, "topic"))
        unit = next(name for name, most in _UNITS if period.seconds <= most)
        moments = traffic.withColumn("moment", F.date_trunc(unit, F.col("minute")))
        timeline = figures.timeline(figures.added_up(moments, prices, "moment")).collect()

        progress("asking every group's own assignor, and the best plan")
        parts = kept(chapters.worked_out(chapters.picked(states)))
        group_days = kept(savings.by_group_day(figures.totals(daily, *GROUP_DAY), savings.shares(parts), prices))
        days = savings.by_day(group_days).orderBy("day").collect()

        progress("ranking groups")
        groups = kept(savings.by_group(group_days, prices))
        lost = kept(losses.losses(parts, groups, period.seconds, prices))
        scale = SECONDS_PER_MONTH / period.seconds
        compared = trends.spans(whole)
        report = Report(
            period=period,
            prices=prices,
            made=datetime.now(UTC).replace(microsecond=0),
            headline=_headline(groups, scale),
            pairs=_pairs(daily),
            unit=unit,
            timeline=tuple(_moment(row, unit, seconds) for row in timeline),
            days=tuple(_day(row, seconds) for row in days),
            groups=_lines(groups.orderBy(F.desc("dollars"), F.desc("bytes"), *GROUP), top, scale),
            savers=_lines(_by_savings(groups), top, scale),
            topics=_topics(daily, top, scale),
            losses=tuple(_loss(row) for row in lost.limit(top).collect()),
            losses_in_all=lost.count(),
            trends=tuple(_trend(group_days, one, top) for one in compared),
            bad=_bad(figures.within(tables.quarantine, first, asked.last or date.max)),
            twice=once.measured_twice(whom).count(),
            **_failed(parts),
        )
        frames = {"traffic_by_day": daily, "groups_by_day": group_days, "lost_rack_awareness": lost}
        yield Gathered(report=report, frames=frames, days=tuple(row["day"] for row in days))


def _days(traffic: DataFrame, asked: Asked) -> tuple[date, date]:
    bounds = traffic.agg(F.min("day").alias("first"), F.max("day").alias("last")).collect()[0]
    if bounds["last"] is None:
        raise AgentError(
            "traffic_by_minute is empty: let agents publish (publishing.traffic_topic), then run samerack pipeline "
            "stream"
        )
    last = min(asked.last or bounds["last"], bounds["last"])
    first = asked.first
    if first is None:
        first = bounds["first"]
        if asked.most_days is not None:
            first = max(first, last - timedelta(days=asked.most_days - 1))
    if figures.within(traffic, first, last).isEmpty():
        raise AgentError(
            f"traffic_by_minute has nothing in this period; it has {bounds['first']} to {bounds['last']}: give --from "
            "and --to within it"
        )
    return first, last


def _utc(naive: datetime) -> datetime:
    """Spark gives its session's time, which is UTC, in the zone of this machine."""
    return naive.astimezone(UTC)


def _period(traffic: DataFrame, first: date, last: date) -> tuple[Period, dict[date, float], tuple[date, ...]]:
    """The period, the seconds measured of each day, and the days that were measured as a whole."""
    rows = figures.covered(traffic).collect()
    ends = {row["day"]: (_utc(row["first"]), _utc(row["last"]) + timedelta(seconds=_MINUTE)) for row in rows}
    whole = tuple(day for day, (begin, end) in ends.items() if trends.whole(day, begin, end))
    seconds = {
        day: _UNIT_SECONDS["day"] if day in whole else (end - begin).total_seconds()
        for day, (begin, end) in ends.items()
    }
    period = Period(
        first=first,
        last=last,
        begin=min(begin for begin, _ in ends.values()),
        end=max(end for _, end in ends.values()),
        seconds=sum(seconds.values()),
    )
    return period, seconds, whole


def _headline(groups: DataFrame, scale: float) -> Headline:
    columns = ("bytes", "crossing_bytes", "unknown_bytes", "exact_bytes", "judged_bytes", "saved_bytes")
    row = groups.agg(
        *(F.sum(name).alias(name) for name in (*columns, "possible_bytes", "dollars")),
        *(F.sum(f"{name}_dollars").alias(f"{name}_dollars") for name in ("saved", "possible")),
        F.count(F.lit(1)).alias("groups"),
        F.sum((F.col("role") == chapters.LEADING).cast("int")).alias("led_groups"),
        F.countDistinct("cluster").alias("clusters"),
    ).collect()[0]
    return Headline(
        **{name: row[name] for name in (*columns, "possible_bytes", "dollars", "groups", "clusters")},
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


def _pairs(daily: DataFrame) -> tuple[Pair, ...]:
    rows = figures.totals(daily, "client_rack", "replica_rack").orderBy(F.desc("bytes")).limit(_MOST_PAIRS).collect()
    return tuple(_from(Pair, row) for row in rows)


def _moment(row: Row, unit: str, seconds: Mapping[date, float]) -> Moment:
    at = _utc(row["moment"])
    length = min(_UNIT_SECONDS[unit], seconds[at.date()]) if unit == "day" else _UNIT_SECONDS[unit]
    return Moment(
        at=at,
        bytes=row["bytes"],
        crossing_bytes=row["crossing_bytes"],
        dollars_per_month=row["dollars"] / length * SECONDS_PER_MONTH,
    )


def _day(row: Row, seconds: Mapping[date, float]) -> Day:
    return _from(Day, row, seconds=seconds[row["day"]])


def _by_savings(groups: DataFrame) -> DataFrame:
    # what was lost counts as much as what was saved
    both = F.abs(F.coalesce("saved_dollars", F.lit(0.0))) + F.coalesce("possible_dollars", F.lit(0.0))
    return groups.withColumn("both", both).where(F.col("both") > 0).orderBy(F.desc("both"), *GROUP)


def _lines(groups: DataFrame, top: int, scale: float) -> tuple[GroupLine, ...]:
    return tuple(
        _from(
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


def _topics(daily: DataFrame, top: int, scale: float) -> tuple[TopicLine, ...]:
    sums = daily.groupBy("cluster", "topic").agg(
        F.countDistinct("group").alias("groups"),
        *(F.sum(name).alias(name) for name in ("bytes", "crossing_bytes", "dollars")),
    )
    rows = sums.orderBy(F.desc("dollars"), F.desc("bytes"), "cluster", "topic").limit(top).collect()
    return tuple(_from(TopicLine, row, dollars_per_month=row["dollars"] * scale) for row in rows)


def _loss(row: Row) -> Loss:
    return _from(Loss, row, at=_utc(row["at"]))


def _trend(group_days: DataFrame, compared: trends.Spans, top: int) -> Trend:
    moved = trends.movers(group_days, compared)
    sums = moved.agg(F.sum("earlier").alias("earlier"), F.sum("later").alias("later")).collect()[0]
    return Trend(
        name=compared.name,
        earlier_from=compared.earlier[0],
        later_from=compared.later[0],
        days=len(compared.later),
        earlier=sums["earlier"] or 0.0,
        later=sums["later"] or 0.0,
        movers=tuple(_from(Mover, row) for row in moved.where(F.col("change") != 0).limit(top).collect()),
    )


def _bad(quarantine: DataFrame) -> tuple[Bad, ...]:
    counted = quarantine.groupBy("reason").agg(F.count(F.lit(1)).alias("records"))
    return tuple(_from(Bad, row) for row in counted.orderBy(F.desc("records"), "reason").collect())


def _failed(parts: DataFrame) -> dict[str, Any]:
    wrong = parts.where(F.col("error").isNotNull())
    row = wrong.agg(F.countDistinct(*GROUP).alias("failed"), F.min("error").alias("failure")).collect()[0]
    return {"failed": row["failed"], "failure": row["failure"] or ""}


def _from(made: type[_Value], row: Row, /, **more: Any) -> _Value:
    """A value of this kind from the row's columns of the same names."""
    have = row.asDict()
    return made(**{one.name: have[one.name] for one in fields(made) if one.name not in more}, **more)
