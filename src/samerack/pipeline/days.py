"""Adds traffic up by day, each byte once, and keeps the sums in `traffic_by_day`, which reports read for its minutes.

The agents of one election together count each byte once, so their counts are summed. Agents of different elections, or
of none, each count the whole group at the same time. One may know a rack that another does not, so rows of two counts
are never mixed within a minute: the count with most bytes of the group in the minute is used, with its racks. Where one
count replaces another within a minute, only the larger part of that minute counts.

Each row of `traffic_by_day` names the files of its day that it was added up from. Readers take a day from it only if
`traffic_by_minute` has just these files for the day now, and add up its minutes otherwise. So the two tables need no
common commit: whatever is killed, late, deleted or written at the same time, a day is at worst added up again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.pipeline import tables
from samerack.pipeline.schema import TRAFFIC_BY_DAY, total
from samerack.settings.pipeline import PipelineSettings

GROUP: Final = ("cluster", "group")
GROUP_DAY: Final = ("day", *GROUP)
SUMS: Final = ("bytes", "records", "exact_bytes")

_MINUTE: Final = (*GROUP_DAY, "minute")
_AT_ONCE: Final = 31
"""Days that are added up in one commit: what is killed has kept those before, and memory does not grow with a year."""
_FILE: Final = re.compile(r"/day=(?P<day>\d{4}-\d\d-\d\d)/(?P<name>[^/]+)$")
_RULES: Final = "1"
"""Part of every digest: after a change of how days are added up, another one makes all days be added up again."""
_VECTORS: Final = "delta.enableDeletionVectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedUp:
    """Days that need not be added up again: their rows of `traffic_by_day`, and which they are."""

    rows: DataFrame
    days: tuple[date, ...]


Between: TypeAlias = Callable[[date, date], AddedUp]
"""Returns the days from one to another, both included, that are added up."""


def within(rows: DataFrame, first: date, last: date) -> DataFrame:
    """Return the rows of these days, both included."""
    return rows.where(F.col("day").between(F.lit(first), F.lit(last)))


def counted_once(traffic: DataFrame) -> DataFrame:
    """Return the rows of the counts in use, and the rows that belong to no count.

    Args:
        traffic: rows of `traffic_by_minute`; rows of older versions belong to no count.

    Returns:
        its columns, and `counts`: how many the group had in the minute; null where it has at most one all day.
    """
    # most groups have one count all day and need no further work; a minimum of texts would sort all rows
    named = traffic.where(F.col("counted_by").isNotNull()).select(*GROUP_DAY, "counted_by").distinct()
    counts = named.groupBy(*GROUP_DAY).agg(F.count(F.lit(1)).alias("counts"))
    several = F.broadcast(counts.where(F.col("counts") > 1).drop("counts"))
    theirs = traffic.join(several, [*GROUP_DAY], "left_semi")
    sums = theirs.where(F.col("counted_by").isNotNull()).groupBy(*_MINUTE, "counted_by")
    whom = sums.agg(total("bytes").alias("bytes")).groupBy(*_MINUTE)
    believed = whom.agg(
        F.max(F.struct("bytes", "counted_by"))["counted_by"].alias("believed"), F.count(F.lit(1)).alias("counts")
    )
    other = F.coalesce(F.col("counted_by") != F.col("believed"), F.lit(False))  # noqa: FBT003 - a literal of Spark's
    used = theirs.join(believed, [*_MINUTE], "left").where(~other).drop("believed")
    alone = traffic.join(several, [*GROUP_DAY], "left_anti").withColumn("counts", F.lit(None).cast("long"))
    return alone.unionByName(used)


def summed(used: DataFrame, *keys: str, more: Sequence[Column] = ()) -> DataFrame:
    """Return sums of rows that `counted_once` returned: the keys, client_rack, replica_rack, SUMS, and more of each."""
    sums = {
        "bytes": total("bytes"),
        "records": total("records"),
        "exact_bytes": total(F.when(F.col("method") == "exact", F.col("bytes")).otherwise(0)),
    }
    return used.groupBy(*keys, "client_rack", "replica_rack").agg(
        *(one.alias(name) for name, one in sums.items()), *more
    )


def by_day(minutes: DataFrame, added_up: AddedUp | None = None) -> DataFrame:
    """Return traffic summed by day: rows of `traffic_by_day`, without `source`.

    Args:
        minutes: rows of `traffic_by_minute`.
        added_up: days of which the minutes are not read.
    """
    if added_up is not None:
        rest = minutes.where(~F.col("day").isin(list(added_up.days)))
        return added_up.rows.drop("source").unionByName(by_day(rest))
    used = counted_once(minutes)
    ends = (F.min("minute").alias("first_minute"), F.max("minute").alias("last_minute"))
    sums = summed(used, *GROUP_DAY, "topic", more=ends)
    several = used.where(F.col("counts").isNotNull()).select(*_MINUTE, "counts").distinct()
    counts = several.groupBy(*GROUP_DAY).agg(F.avg("counts").alias("counts"))
    rows = sums.join(F.broadcast(counts), [*GROUP_DAY], "left")
    return rows.select(*(name for name in TRAFFIC_BY_DAY.names if name != "source"))


def opened(spark: SparkSession, settings: PipelineSettings) -> tuple[DataFrame, Between | None]:
    """Return `traffic_by_minute` as it is now, and what finds its days in `traffic_by_day`, where there is this table.

    Raises:
        AgentError: A table cannot be read.
    """
    minutes, sources = _minutes(spark, settings)
    return minutes, _stored(spark, settings, sources) if tables.exists(spark, settings, "traffic_by_day") else None


def _stored(spark: SparkSession, settings: PipelineSettings, sources: Mapping[date, str]) -> Between:
    stored = tables.read_now(spark, settings, "traffic_by_day")

    def between(first: date, last: date) -> AddedUp:
        rows = within(stored, first, last)
        found = rows.groupBy("day").agg(F.collect_set("source").alias("sources")).collect()
        held = tuple(row["day"] for row in found if row["sources"] == [sources.get(row["day"])])
        return AddedUp(rows=rows.where(F.col("day").isin(list(held))), days=held)

    return between


def add_up(spark: SparkSession, settings: PipelineSettings, *, until: date, progress: Callable[[str], None]) -> int:
    """Add up the days before `until` that `traffic_by_day` lacks or has otherwise; returns how many.

    Raises:
        AgentError: A table cannot be read, or another writer changes the same days repeatedly.
    """
    minutes, sources = _minutes(spark, settings)
    complete = sorted(day for day in sources if day < until)
    held = _stored(spark, settings, sources)(complete[0], complete[-1]).days if complete else ()
    lacking = [day for day in reversed(complete) if day not in held]
    for begin in range(0, len(lacking), _AT_ONCE):
        days = lacking[begin : begin + _AT_ONCE]
        progress(f"traffic_by_day: adding up {len(days)} days from {days[-1]}")
        named = spark.createDataFrame([(day, sources[day]) for day in days], "day date, source string")
        rows = by_day(minutes.where(F.col("day").isin(list(days)))).join(F.broadcast(named), "day")
        tables.replace(rows.select(*TRAFFIC_BY_DAY.names), settings, "traffic_by_day", days=days)
    return len(lacking)


def _minutes(spark: SparkSession, settings: PipelineSettings) -> tuple[DataFrame, Mapping[date, str]]:
    """Return `traffic_by_minute` as it is now, and for each day a digest of the names of its files, which never change.

    There is none where the names do not say everything: with deletion vectors, or files outside of days' folders.
    """
    minutes = tables.read_now(spark, settings, "traffic_by_minute")
    found = [_FILE.search(path) for path in minutes.inputFiles()]
    if tables.properties(spark, settings, "traffic_by_minute").get(_VECTORS) == "true" or not all(found):
        return minutes, {}
    files = defaultdict[date, list[str]](list)
    for one in filter(None, found):
        files[date.fromisoformat(one["day"])].append(one["name"])
    texts = {day: "\n".join((_RULES, *sorted(names))) for day, names in files.items()}
    return minutes, {day: sha256(text.encode()).hexdigest() for day, text in texts.items()}
