"""Makes the report from the tables: the order of Spark's jobs, and rows to values; collects only rows that are shown.

Day over day and week over week are compared where the days at the end are measured completely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.errors import AgentError
from samerack.common.money import SECONDS_PER_MONTH, PriceTable
from samerack.common.records import LEADING
from samerack.pipeline import days as days_of
from samerack.pipeline import tables
from samerack.pipeline.days import GROUP, GROUP_DAY, Between, by_day, counted_once, summed, within
from samerack.pipeline.report import billing, chapters, figures
from samerack.pipeline.report.fleet_report import (
    Bad,
    Day,
    FleetReport,
    GroupLine,
    Headline,
    Loss,
    Moment,
    Money,
    Mover,
    OwnerLine,
    Pair,
    Period,
    TopicLine,
    Trend,
)
from samerack.pipeline.schema import total
from samerack.settings.pipeline import PipelineSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Value = TypeVar("_Value", bound="DataclassInstance")

_UNIT_SECONDS: Final = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
_UNITS: Final = (("minute", 3 * 3600.0), ("hour", 4 * 86400.0), ("day", float("inf")))
"""Units of the timeline, each with the longest period in seconds that it is used for."""
_MISSING: Final = timedelta(hours=1)
"""A complete day may lack this much at each end."""
_WEEK: Final = 7
_MAX_REASONS: Final = 50
_AT_ONCE: Final = 4
"""Queries that are planned and run at the same time."""
_MAX_PAIRS: Final = 144
"""Twelve by twelve racks, as many as a page can show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of the pipeline.

    Attributes:
        traffic: `traffic_by_minute`.
        added_up: finds days of it that are added up in `traffic_by_day`; None: none are.
    """

    traffic: DataFrame
    states: DataFrame
    quarantine: DataFrame
    added_up: Between | None = None


def opened(spark: SparkSession, settings: PipelineSettings) -> Tables:
    """Return the tables as they are now.

    Raises:
        AgentError: A table cannot be read.
    """
    traffic, added_up = days_of.opened(spark, settings)
    return Tables(
        traffic=traffic,
        states=tables.read(spark, settings, "group_states"),
        quarantine=tables.read(spark, settings, "quarantine"),
        added_up=added_up,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The scope of a report.

    Attributes:
        first: first day; None means `max_days` up to the last, or all.
        last: last day; None means the newest in the table.
        max_days: how many days at most, where no first day is given.
        top: how many groups, topics and losses are shown.
        owners: owners by patterns of group names (`pipeline.owners`).
    """

    first: date | None = None
    last: date | None = None
    max_days: int | None = None
    top: int = 20
    owners: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The report, and the frames that it was made from, by name, for files."""

    report: FleetReport
    frames: Mapping[str, DataFrame]
    days: tuple[date, ...]


@contextmanager
def gathered(
    found: Tables,
    prices: PriceTable,
    asked: Asked,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Gathered]:
    """Make the report of a period; the frames are valid within the block, and `progress` is called with each step.

    Raises:
        AgentError: the period has no traffic.
    """
    first, last = _days(found.traffic, asked)
    top = asked.top
    progress(f"adding up {first} to {last}, and working out every group's plans")
    with ExitStack() as stack:
        # queries are small, and most of the time of each goes into its plan, which one thread makes
        pool = ThreadPoolExecutor(_AT_ONCE, "report")
        stack.callback(pool.shutdown, cancel_futures=True)
        soon = pool.submit

        def kept(frame: DataFrame) -> DataFrame:
            frame.persist()
            stack.callback(frame.unpersist)
            return frame

        states = within(found.states, first, last)

        def worked_out() -> DataFrame:
            chosen = kept(chapters.worked_out(chapters.picked(states, kept)))
            chosen.count()  # now, and not when it is first needed
            return chosen

        asking = soon(worked_out)
        bad = soon(_bad, within(found.quarantine, first, asked.last or date.max))
        minutes = within(found.traffic, first, last)
        traffic = by_day(minutes, found.added_up and found.added_up(first, last))
        # in order of days, because files are written day by day
        daily = kept(figures.priced(traffic, prices).sortWithinPartitions("day"))
        period, seconds, whole = _period(daily, first, last)
        unit = next(name for name, most in _UNITS if period.seconds <= most)
        moment = F.date_trunc(unit, F.col("day" if unit == "day" else "minute")).alias("moment")
        rows = (
            daily.select(moment, *figures.PRICED)
            if unit == "day"
            else figures.priced(summed(counted_once(minutes).withColumn("moment", moment), "moment"), prices)
        )
        timeline = soon(figures.totals(rows, "moment").orderBy("moment").collect)
        scale = SECONDS_PER_MONTH / period.seconds
        pairs, topics = soon(_pairs, daily), soon(_topics, daily, top, scale)
        twice = soon(figures.measured_twice(daily).count)
        parts = asking.result()

        progress("ranking groups")
        group_days = kept(figures.by_group_day(figures.totals(daily, *GROUP_DAY), figures.shares(parts), prices))
        groups = kept(figures.by_group(group_days, prices))
        lost = kept(figures.losses(parts, groups, period.seconds, prices))
        days = soon(figures.summed(group_days, "day").orderBy("day").collect)
        headline = soon(_headline, groups, scale)
        lines = soon(_lines, groups.orderBy(F.desc("dollars"), F.desc("bytes"), *GROUP), top, scale)
        savers = soon(_lines, _by_savings(groups), top, scale)
        owner = billing.owner_of(asked.owners)
        owners = soon(_owners, groups.withColumn("owner", owner), scale) if asked.owners else None
        losses = soon(lost.limit(top).collect)
        losses_in_all = soon(lost.count)
        trends = [soon(_trend, group_days, spans, top) for spans in compared_spans(whole)]
        failed, failure = _failed(parts)
        by_days = days.result()
        report = FleetReport(
            period=period,
            prices=prices,
            made=datetime.now(UTC).replace(microsecond=0),
            headline=headline.result(),
            pairs=pairs.result(),
            unit=unit,
            timeline=tuple(_moment(row, unit, seconds, period) for row in timeline.result()),
            days=tuple(_value_of(Day, row, seconds=seconds[row["day"]]) for row in by_days),
            groups=lines.result(),
            savers=savers.result(),
            owners=owners.result() if owners else (),
            topics=topics.result(),
            losses=tuple(_value_of(Loss, row, at=_utc(row["at"])) for row in losses.result()),
            losses_in_all=losses_in_all.result(),
            trends=tuple(trend.result() for trend in trends),
            bad=bad.result(),
            twice=twice.result(),
            failed=failed,
            failure=failure,
        )
        shown = daily.select(*GROUP_DAY, "topic", "client_rack", "replica_rack", *figures.PRICED)
        frames = {
            "traffic_by_day": shown,
            "groups_by_day": group_days.withColumn("owner", owner),
            "lost_rack_awareness": lost,
            "focus": billing.charges(shown.withColumn("owner", owner), prices),
        }
        yield Gathered(report=report, frames=frames, days=tuple(row["day"] for row in by_days))


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
        if asked.max_days is not None:
            first = max(first, last - timedelta(days=asked.max_days - 1))
    if within(traffic, first, last).isEmpty():
        raise AgentError(
            f"traffic_by_minute has nothing in this period; it has {bounds['first']} to {bounds['last']}: give --from "
            "and --to within it"
        )
    return first, last


def _period(daily: DataFrame, first: date, last: date) -> tuple[Period, dict[date, float], tuple[date, ...]]:
    """Return the period, the seconds measured of each day, and the days that were measured completely."""
    ends = (F.min("first_minute").alias("first"), F.max("last_minute").alias("last"))
    rows = daily.groupBy("day").agg(*ends).orderBy("day").collect()
    minute = timedelta(minutes=1)
    spans = {row["day"]: (_utc(row["first"]), _utc(row["last"]) + minute) for row in rows}
    whole = tuple(day for day, (begin, end) in spans.items() if is_whole(day, begin, end))
    seconds = {
        day: _UNIT_SECONDS["day"] if day in whole else (end - begin).total_seconds()
        for day, (begin, end) in spans.items()
    }
    period = Period(
        first=first,
        last=last,
        begin=min(begin for begin, _ in spans.values()),
        end=max(end for _, end in spans.values()),
        seconds=sum(seconds.values()),
    )
    return period, seconds, whole


def is_whole(day: date, first: datetime, last: datetime) -> bool:
    """Return whether there are samples from the start of a day to its end."""
    begin = datetime(day.year, day.month, day.day, tzinfo=first.tzinfo)
    return first - begin <= _MISSING and begin + timedelta(days=1) - last <= _MISSING


def _utc(naive: datetime) -> datetime:
    """Return a time in UTC: Spark collects timestamps as local time of this machine."""
    return naive.astimezone(UTC)


def _sums() -> list[Column]:
    """Return sums over groups of what their lines, their owners' and the fleet's figures have in common."""
    return [
        F.count(F.lit(1)).alias("groups"),
        *(total(name).alias(name) for name in ("bytes", "crossing_bytes", "unknown_bytes")),
        *(F.sum(name).alias(name) for name in ("dollars", "saved_dollars", "possible_dollars")),
    ]


def _headline(groups: DataFrame, scale: float) -> Headline:
    """Return the fleet's figures from `figures.by_group`; `scale` converts dollars of the period to a month."""
    row = groups.agg(
        *_sums(),
        *(total(name).alias(name) for name in ("exact_bytes", "judged_bytes")),
        *(F.sum(name).alias(name) for name in ("saved_bytes", "possible_bytes")),
        F.coalesce(F.sum((F.col("role") == LEADING).cast("int")), F.lit(0)).alias("led_groups"),
        F.countDistinct("cluster").alias("clusters"),
    ).collect()[0]
    return _value_of(Headline, row, share=_share(row), month=_money(row, scale))


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
    """Return the rack pairs with most bytes."""
    rows = figures.totals(daily, "client_rack", "replica_rack").orderBy(F.desc("bytes")).limit(_MAX_PAIRS).collect()
    return tuple(_value_of(Pair, row) for row in rows)


def _moment(row: Row, unit: str, seconds: Mapping[date, float], period: Period) -> Moment:
    """Return a moment of the timeline; one that was measured in part counts at the rate of that part."""
    at = _utc(row["moment"])
    end = min(at + timedelta(seconds=_UNIT_SECONDS[unit]), period.end)
    length = seconds[at.date()] if unit == "day" else (end - max(at, period.begin)).total_seconds()
    return _value_of(Moment, row, at=at, dollars_per_month=row["dollars"] / length * SECONDS_PER_MONTH)


def _by_savings(groups: DataFrame) -> DataFrame:
    """Return the groups with most saved and possible together."""
    # a negative saving counts as much as a positive one
    both = F.abs(F.coalesce("saved_dollars", F.lit(0.0))) + F.coalesce("possible_dollars", F.lit(0.0))
    return groups.withColumn("both", both).where(F.col("both") > 0).orderBy(F.desc("both"), *GROUP)


def _lines(groups: DataFrame, top: int, scale: float) -> tuple[GroupLine, ...]:
    """Return the first `top` of these groups."""
    return tuple(
        _value_of(
            GroupLine,
            row,
            kind=row["kind"] or "",
            assignor=row["assignor"] or "",
            share=_share(row),
            month=_money(row, scale),
        )
        for row in groups.limit(top).collect()
    )


def _owners(groups: DataFrame, scale: float) -> tuple[OwnerLine, ...]:
    """Return all owners, from `figures.by_group` with the owner of each."""
    rows = groups.groupBy("owner").agg(*_sums()).orderBy(F.desc("dollars"), F.desc("bytes"), "owner").collect()
    return tuple(_value_of(OwnerLine, row, share=_share(row), month=_money(row, scale)) for row in rows)


def _topics(daily: DataFrame, top: int, scale: float) -> tuple[TopicLine, ...]:
    """Return the most expensive topics."""
    sums = daily.groupBy("cluster", "topic").agg(
        F.countDistinct("group").alias("groups"),
        *(total(name).alias(name) for name in ("bytes", "crossing_bytes")),
        F.sum("dollars").alias("dollars"),
    )
    rows = sums.orderBy(F.desc("dollars"), F.desc("bytes"), "cluster", "topic").limit(top).collect()
    return tuple(_value_of(TopicLine, row, dollars_per_month=row["dollars"] * scale) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySpans:
    """Two spans of days that are compared: `later` right after `earlier`, of equal length."""

    name: str
    earlier: tuple[date, ...]
    later: tuple[date, ...]


def compared_spans(days: Sequence[date]) -> tuple[DaySpans, ...]:
    """Return the comparisons that are possible at the end of these complete days."""
    present = set(days)
    found = []
    for name, length in (("day over day", 1), ("week over week", _WEEK)):
        if not present:
            break
        newest = max(present)
        later = tuple(newest - timedelta(days=back) for back in reversed(range(length)))
        earlier = tuple(day - timedelta(days=length) for day in later)
        if present.issuperset((*earlier, *later)):
            found.append(DaySpans(name=name, earlier=earlier, later=later))
    return tuple(found)


def _trend(group_days: DataFrame, compared: DaySpans, top: int) -> Trend:
    """Return two spans of days, and the groups that changed most."""

    def spent(days: Sequence[date]) -> Column:
        return F.sum(F.when(F.col("day").isin(list(days)), F.col("dollars")).otherwise(0.0))

    sums = group_days.groupBy(*GROUP).agg(
        spent(compared.earlier).alias("earlier"), spent(compared.later).alias("later")
    )
    change = F.col("later") - F.col("earlier")
    moved = sums.where(change != 0).orderBy(F.desc(F.abs(change)), *GROUP).limit(top)
    fleet = sums.agg(F.sum("earlier").alias("earlier"), F.sum("later").alias("later")).collect()[0]
    return Trend(
        name=compared.name,
        earlier_from=compared.earlier[0],
        later_from=compared.later[0],
        days=len(compared.later),
        earlier=fleet["earlier"] or 0.0,
        later=fleet["later"] or 0.0,
        movers=tuple(_value_of(Mover, row) for row in moved.collect()),
    )


def _bad(quarantine: DataFrame) -> tuple[Bad, ...]:
    """Return counts of bad records, the most frequent reasons first, the rest in one: reasons may contain values."""
    number = F.sum(F.coalesce("records", F.lit(1))).alias("records")
    counted = quarantine.groupBy("reason").agg(number)
    first = counted.orderBy(F.desc("records"), "reason").limit(_MAX_REASONS + 1).collect()
    shown = tuple(_value_of(Bad, row) for row in first[:_MAX_REASONS])
    if len(first) == len(shown):
        return shown
    others = quarantine.agg(number).collect()[0]["records"] - sum(one.records for one in shown)
    return (*shown, Bad(reason="other reasons", records=others))


def _failed(parts: DataFrame) -> tuple[int, str]:
    """Return the number of groups whose plans could not be computed, and the error of one of them."""
    wrong = parts.where(F.col("error").isNotNull())
    row = wrong.agg(F.countDistinct(*GROUP).alias("failed"), F.min("error").alias("failure")).collect()[0]
    return row["failed"], row["failure"] or ""


def _value_of(made: type[_Value], row: Row, /, **more: Any) -> _Value:
    """Return a value of this type from the row's columns of the same names."""
    have = row.asDict()
    return made(**{one.name: have[one.name] for one in fields(made) if one.name not in more}, **more)
