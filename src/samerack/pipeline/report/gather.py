"""Makes the report from the tables: the order of Spark's jobs; only rows that are shown are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.errors import AgentError
from samerack.common.money import SECONDS_PER_MONTH, PriceTable
from samerack.pipeline.report import chapters, figures, losses, once, savings, trends, values
from samerack.pipeline.report.figures import GROUP, GROUP_DAY
from samerack.pipeline.report.fleet_report import Day, FleetReport, Loss, Period

_MINUTE: Final = 60.0
_UNITS: Final = (("minute", 3 * 3600.0), ("hour", 4 * 86400.0), ("day", float("inf")))
"""Units of the timeline, each with the longest period in seconds that it is used for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of the pipeline."""

    traffic: DataFrame
    states: DataFrame
    quarantine: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The scope of a report.

    Attributes:
        first: first day; None means `max_days` up to the last, or all.
        last: last day; None means the newest in the table.
        max_days: how many days at most, where no first day is given.
        top: how many groups, topics and losses are shown.
    """

    first: date | None = None
    last: date | None = None
    max_days: int | None = None
    top: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The report, and the frames that it was made from, by name, for files."""

    report: FleetReport
    frames: Mapping[str, DataFrame]
    days: tuple[date, ...]


@contextmanager
def gathered(
    tables: Tables,
    prices: PriceTable,
    asked: Asked,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Gathered]:
    """Make the report of a period; the frames are valid within the block, and `progress` is called with each step.

    Raises:
        AgentError: the period has no traffic.
    """
    first, last = _days(tables.traffic, asked)
    top = asked.top
    progress(f"adding up {first} to {last}")
    with ExitStack() as stack:

        def kept(frame: DataFrame) -> DataFrame:
            frame.persist()
            stack.callback(frame.unpersist)
            return frame

        traffic_rows = figures.within(tables.traffic, first, last)
        states = figures.within(tables.states, first, last)
        period, seconds, whole = _period(traffic_rows, first, last)
        whom = kept(once.believed(traffic_rows))
        traffic = once.once(traffic_rows, whom)
        # in order of days, because files are written day by day
        daily = kept(figures.added_up(traffic, prices, *GROUP_DAY, "topic").sortWithinPartitions("day"))
        unit = next(name for name, most in _UNITS if period.seconds <= most)
        moment = F.date_trunc(unit, F.col("day" if unit == "day" else "minute")).alias("moment")
        rows = (
            daily.select(moment, *figures.SUMS)
            if unit == "day"
            else figures.added_up(traffic.withColumn("moment", moment), prices, "moment")
        )
        timeline = figures.totals(rows, "moment").orderBy("moment").collect()

        progress("asking every group's own assignor, and the best plan")
        parts = kept(chapters.worked_out(chapters.picked(states, kept)))
        group_days = kept(savings.by_group_day(figures.totals(daily, *GROUP_DAY), savings.shares(parts), prices))
        days = savings.summed(group_days, "day").orderBy("day").collect()

        progress("ranking groups")
        groups = kept(savings.by_group(group_days, prices))
        lost = kept(losses.losses(parts, groups, period.seconds, prices))
        scale = SECONDS_PER_MONTH / period.seconds
        compared = trends.spans(whole)
        report = FleetReport(
            period=period,
            prices=prices,
            made=datetime.now(UTC).replace(microsecond=0),
            headline=values.headline(groups, scale),
            pairs=values.pairs(daily),
            unit=unit,
            timeline=tuple(values.moment(row, unit, seconds) for row in timeline),
            days=tuple(values.value_of(Day, row, seconds=seconds[row["day"]]) for row in days),
            groups=values.lines(groups.orderBy(F.desc("dollars"), F.desc("bytes"), *GROUP), top, scale),
            savers=values.lines(values.by_savings(groups), top, scale),
            topics=values.topics(daily, top, scale),
            losses=tuple(values.value_of(Loss, row, at=values.utc(row["at"])) for row in lost.limit(top).collect()),
            losses_in_all=lost.count(),
            trends=tuple(values.trend(group_days, one, top) for one in compared),
            bad=values.bad(figures.within(tables.quarantine, first, asked.last or date.max)),
            twice=once.measured_twice(whom).count(),
            **values.failed(parts),
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
        if asked.max_days is not None:
            first = max(first, last - timedelta(days=asked.max_days - 1))
    if figures.within(traffic, first, last).isEmpty():
        raise AgentError(
            f"traffic_by_minute has nothing in this period; it has {bounds['first']} to {bounds['last']}: give --from "
            "and --to within it"
        )
    return first, last


def _period(traffic: DataFrame, first: date, last: date) -> tuple[Period, dict[date, float], tuple[date, ...]]:
    """Return the period, the seconds measured of each day, and the days that were measured completely."""
    rows = figures.covered(traffic).collect()
    ends = {
        row["day"]: (values.utc(row["first"]), values.utc(row["last"]) + timedelta(seconds=_MINUTE)) for row in rows
    }
    whole = tuple(day for day, (begin, end) in ends.items() if trends.whole(day, begin, end))
    seconds = {
        day: values.UNIT_SECONDS["day"] if day in whole else (end - begin).total_seconds()
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
