"""Computes every scenario of every group of a fleet in parallel on Spark, and what each change would save.

Frames in, frames out; a group that cannot be computed becomes a row with the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation calls it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, DoubleType

from samerack.common.errors import SettingsError
from samerack.common.money import SECONDS_PER_MONTH, PriceTable
from samerack.common.records import LEADING, GroupState
from samerack.pipeline.problem import reason_of
from samerack.pipeline.schema import COUNT, INDEX, TEXT, shape, state_as_json
from samerack.pipeline.simulate import FILES
from samerack.pipeline.whatif_group import (
    COPIES,
    ELECT,
    LEAD,
    NEAR,
    NEAR_LEAD,
    PRESENT,
    RACK,
    STRATEGY,
    Questions,
    ScenarioOutcome,
    outcomes,
)

MIN_DOLLARS: Final = 0.01
"""The smallest saving a month that is shown."""
_MAX_AGE_MS: Final = 86_400_000
"""An agent publishes each group once a minute at least: one without a state for this time is gone or renamed."""
_LEADER_MS: Final = 600_000
"""So much older than those of other agents a state may be, and the leader's still says more."""
_TASKS_PER_CORE: Final = 8
"""Groups differ in size: small tasks keep all cores busy to the end, and show progress."""

OUTCOME: Final = shape(
    cluster=TEXT,
    group=TEXT,
    at=COUNT,
    kind=TEXT,
    assignor=TEXT,
    role=TEXT,
    rack_aware_fetch=BooleanType(),
    members=INDEX,
    members_without_rack=INDEX,
    partitions=INDEX,
    measured=BooleanType(),
    scenario=TEXT,
    reference=TEXT,
    topic=TEXT,
    read=DoubleType(),
    across=DoubleType(),
    unknown=DoubleType(),
    share=DoubleType(),
    before=DoubleType(),
    copying=DoubleType(),
    moves=INDEX,
    placed=TEXT,
    error=TEXT,
)
"""One scenario of one group: bytes a second read, read across racks, of unknown rack, across racks without the change,
and fetched across racks by new copies; only names, time and `error` where the group could not be computed."""


def states_in_files(spark: SparkSession, path: Path) -> DataFrame:
    """Return states as JSON (`value`) from a folder of `samerack pipeline simulate`, or from one file of such lines.

    Raises:
        SettingsError: the file does not exist.
    """
    file = path / FILES["state"] if path.is_dir() else path
    if not file.is_file():
        raise SettingsError(
            f"{file}: is not a file; name a folder with {FILES['state']}, as samerack pipeline simulate makes it"
        )
    return spark.read.text(file.absolute().as_uri())


def states_in_table(table: DataFrame, *, until: int | None = None) -> DataFrame:
    """Return the last states of each group and agent before `until` as JSON (`value`), from the table `group_states`.

    All other columns than times and names are read on the days of these states only.

    Raises:
        SettingsError: columns are missing.
    """
    try:
        before = table if until is None else table.where(F.unix_millis("at") < until)
        last = before.groupBy("cluster", "group", "agent").agg(F.max(F.struct("at", "day")).alias("last"))
        keys = last.select("cluster", "group", "agent", "last.*")
        found = table.join(F.broadcast(keys), ["day", "cluster", "group", "agent", "at"])
        return found.select(state_as_json().alias("value"))
    except AnalysisException as error:
        raise SettingsError(f"group_states: is not a table of states ({str(error).splitlines()[0]})") from None


def latest(states: DataFrame, *, until: int | None = None) -> DataFrame:
    """Return one state of each group before `until` (milliseconds since 1970), as JSON, and when its newest one is of.

    That is the latest, but of several agents the leading one's comes first. Unreadable records are kept, of no time, so
    that they appear as errors.
    """
    key = F.from_json("value", "cluster string, `group` string, agent string, at long, id string, role string")
    keyed = states.select("value", key.alias("key")).select("value", "key.*")
    readable = F.col("cluster").isNotNull() & F.col("group").isNotNull() & F.col("at").isNotNull()
    good = keyed.where(readable)
    if until is not None:
        good = good.where(F.col("at") < until)
    last = F.max_by(F.struct("value", "role", "at", "id"), F.struct("at", "id"))
    of_agents = good.groupBy("cluster", "group", "agent").agg(last.alias("last")).select("cluster", "group", "last.*")
    counts_as = F.col("at") + F.when(F.col("role") == LEADING, _LEADER_MS).otherwise(0)
    picked = of_agents.groupBy("cluster", "group").agg(
        F.max_by("value", F.struct(counts_as, "id")).alias("value"), F.max("at").alias("newest")
    )
    bad = keyed.where(~F.coalesce(readable, F.lit(False)))  # noqa: FBT003 - a literal of Spark's
    return picked.select("value", "newest").unionByName(bad.select("value", F.lit(None).cast("long").alias("newest")))


def chosen(latest: DataFrame, *, since: int | None = None) -> tuple[DataFrame, int]:
    """Return the states to compute, and how many groups are left out: they have no state from `since` on.

    Without a time, from one day before the newest of all.
    """
    if since is None:
        (newest,) = latest.agg(F.max("newest")).collect()[0]
        since = 0 if newest is None else newest - _MAX_AGE_MS
    old = F.coalesce(F.col("newest") < since, F.lit(False))  # noqa: FBT003 - a literal of Spark's
    return latest.where(~old).select("value"), latest.where(old).count()


def ask(states: DataFrame, questions: Questions, prices: PriceTable) -> DataFrame:
    """Return every scenario of every state (as JSON), with its cost a month."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [row for text in batch["value"].to_pylist() for row in rows_of(text, questions)]
            yield pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(OUTCOME))

    tasks = states.sparkSession.sparkContext.defaultParallelism * _TASKS_PER_CORE
    return _priced(states.repartition(tasks).mapInArrow(work, OUTCOME), prices)


def rows_of(text: str, questions: Questions) -> list[dict[str, Any]]:
    """Return the rows of one state, or one row with the error."""
    state = None
    try:
        state = GroupState.model_validate_json(text)
        return [_row(state, outcome) for outcome in outcomes(state, questions)]
    except Exception as error:  # noqa: BLE001 - an error in one group must not stop the others
        known = {} if state is None else {"cluster": state.cluster, "group": state.group, "at": state.at}
        return [{**known, "error": reason_of(error)}]


def _row(state: GroupState, outcome: ScenarioOutcome) -> dict[str, Any]:
    reads = outcome.reads
    same = ("cluster", "group", "at", "kind", "assignor", "role", "rack_aware_fetch")
    asked = ("scenario", "reference", "topic", "before", "copying", "moves", "placed")
    return {
        **{name: getattr(state, name) for name in same},
        **{name: getattr(outcome, name) for name in asked},
        "members": len(state.members),
        "members_without_rack": sum(not member.fetches_with_rack for member in state.members),
        "partitions": sum(len(topic.owner) for topic in state.topics),
        "measured": any(any(topic.bytes_per_second) for topic in state.topics),
        "read": reads.known + reads.unknown,
        "across": reads.crossing,
        "unknown": reads.unknown,
        "share": reads.share,
    }


def _priced(rows: DataFrame, prices: PriceTable) -> DataFrame:
    """Add dollars a month to bytes a second; both are null without known rates, and `share` counts partitions."""
    month = F.lit(prices.dollars_per_byte * SECONDS_PER_MONTH)
    counted = {
        name: F.when(F.col("measured"), F.col(name)) for name in ("read", "across", "unknown", "before", "copying")
    }
    return rows.withColumns({**counted, "at": F.timestamp_millis("at")}).withColumns(
        {
            "dollars": F.col("across") * month,
            "copying_dollars": F.col("copying") * month,
            "saves_dollars": (F.col("before") - F.col("across") - F.col("copying")) * month,
        }
    )


def changes(rows: DataFrame) -> DataFrame:
    """Return possible changes: a row for each group and change, and one for each topic that could have more copies.

    A topic's copies are paid once for all its readers: the savings of all groups are set against that one cost.
    """
    is_change, reader = F.col("reference") != "", F.struct("cluster", "group")
    of_group = ("kind", "assignor", "rack_aware_fetch", "members", "members_without_rack")
    facts = ("reference", *of_group, "share", "moves", "placed")
    one_group = (F.lit(1).alias("groups"), F.array(reader).alias("readers"))
    single = rows.where(is_change & (F.col("scenario") != COPIES)).select(
        "scenario", "cluster", "group", "topic", *one_group, "saves_dollars", "copying_dollars", *facts
    )
    gained: Column = F.sum(F.col("saves_dollars") + F.col("copying_dollars"))
    copied = (
        rows.where(F.col("scenario") == COPIES)
        .groupBy("scenario", "cluster", "topic")
        .agg(
            F.min("group").alias("group"),
            F.count_distinct("group").cast("int").alias("groups"),
            F.collect_set(reader).alias("readers"),
            (gained - F.max("copying_dollars")).alias("saves_dollars"),
            F.max("copying_dollars").alias("copying_dollars"),
            *(F.min_by(fact, "group").alias(fact) for fact in facts),
        )
    )
    return single.unionByName(copied.select(single.columns))


def ranked(found: DataFrame) -> DataFrame:
    """Return the changes that save at least `MIN_DOLLARS`, the largest saving first."""
    return (
        found.where(F.col("saves_dollars") >= MIN_DOLLARS)
        .orderBy(F.desc("saves_dollars"), "scenario", "cluster", "group", "topic")
        .drop("readers")
    )


def by_change(found: DataFrame) -> DataFrame:
    """Return the saving of each kind of change over the fleet, largest first; omits those below `MIN_DOLLARS`.

    A new rack and other leaders concern all groups: what they cost some is taken off. A group that reads several topics
    which could have more copies counts once.
    """
    saved = F.col("saves_dollars")
    readers = F.array_distinct(F.flatten(F.collect_list("readers")))
    return (
        found.where((saved >= MIN_DOLLARS) | (F.col("scenario").isin(RACK, ELECT) & (saved != 0)))
        .groupBy("scenario")
        .agg(
            F.count("*").alias("places"), F.size(readers).alias("groups"), F.sum("saves_dollars").alias("saves_dollars")
        )
        .orderBy(F.desc("saves_dollars"), "scenario")
    )


def totals(rows: DataFrame) -> DataFrame:
    """Return one row: groups, their reads and present cost, and what leading and fetching near would save."""
    now = F.col("scenario") == PRESENT
    saved = F.col("saves_dollars")
    near = F.max(F.when(F.col("scenario") == NEAR, saved))
    on_top = F.max(F.when(F.col("scenario").isin(NEAR_LEAD, STRATEGY) & (F.col("reference") == NEAR), saved))
    led = F.max(F.when(F.col("scenario").isin(LEAD, STRATEGY) & (F.col("reference") == PRESENT), saved))
    best = (
        rows.groupBy("cluster", "group", "at")
        .agg(F.greatest(led, near, near + on_top, F.lit(0.0)).alias("best"))
        .agg(F.coalesce(F.sum("best"), F.lit(0.0)).alias("possible_dollars"))
    )
    present = rows.agg(
        F.count_if(now).alias("groups"),
        F.count_if(F.col("error").isNotNull()).alias("failed"),
        *(
            F.coalesce(F.sum(F.when(now, F.col(name))), F.lit(0.0)).alias(name)
            for name in ("read", "across", "unknown", "dollars")
        ),
        F.count_if(now & ~F.col("measured")).alias("unmeasured"),
    )
    return present.crossJoin(best)
