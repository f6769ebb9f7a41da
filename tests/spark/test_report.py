"""The report's figures on Spark (bytes, dollars, savings, losses, trends) against values computed independently."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.errors import AgentError
from samerack.common.money import SECONDS_PER_MONTH, shipped
from samerack.pipeline import stream
from samerack.pipeline.quarantine import quarantined
from samerack.pipeline.report import chapters, losses, savings
from samerack.pipeline.report.chapters import CHAPTER
from samerack.pipeline.report.gather import Asked, Tables, gathered
from samerack.pipeline.report.model import Report
from samerack.pipeline.simulate import messages
from samerack.pipeline.simulate_cast import DAY, Fleet
from samerack.pipeline.sums import FULL
from tests.records import MINUTE, START
from tests.spark.records import SETTINGS, raw, sample, state

AWS: Final = shipped("aws")
MEMBERS: Final = [
    {"id": "m-1", "client_id": "app-1", "rack": 0, "fetches_with_rack": False, "topics": [0], "tells_rack": False},
    {"id": "m-2", "client_id": "app-2", "rack": 1, "fetches_with_rack": False, "topics": [0], "tells_rack": False},
]


def topics(owner: list[int]) -> list[dict[str, Any]]:
    """Two partitions with one replica each, which range assigns to the members in the other rack."""
    return [{"name": "clicks", "replicas": [[1], [0]], "owner": owner, "bytes_per_second": [10.0, 10.0]}]


FAR: Final = {"members": MEMBERS, "topics": topics([0, 1]), "role": ""}
LED: Final = {"members": MEMBERS, "topics": topics([1, 0]), "role": "leading"}


def tables(spark: SparkSession, samples: Iterable[bytes], states: Iterable[bytes]) -> Tables:
    """The tables that the stream makes of records."""
    records = stream.parsed(raw(spark, samples=list(samples), states=list(states)), SETTINGS)
    records.persist()
    return Tables(traffic=stream.by_minute(records), states=stream.states(records), quarantine=quarantined(records))


def reported(found: Tables, asked: Asked | None = None) -> Report:
    """The report without the rest of the result."""
    with gathered(found, AWS, asked or Asked()) as made:
        return made.report


def minutes(count: int, **changes: Any) -> list[bytes]:
    """One sample of 1000 bytes for each minute."""
    ids = changes.pop("number", 0)
    return [
        sample(ids + n, window_start=START + n * MINUTE, window_end=START + (n + 1) * MINUTE, **changes)
        for n in range(count)
    ]


def test_a_simulated_fleet_adds_up(spark: SparkSession) -> None:
    """Bytes, cross-rack bytes, dollars, days and groups equal an independent computation."""
    fleet = Fleet(groups=12, days=3, step_seconds=3600, state_seconds=3600 * 6, seed=3, start=START // DAY * DAY)
    sent: dict[str, list[bytes]] = {"sample": [], "state": []}
    for message in messages(fleet):
        sent[message.kind].append(message.value)
    made = reported(tables(spark, sent["sample"], sent["state"]))
    read, crossed = Counter[str](), Counter[str]()
    for text in sent["sample"]:
        one = json.loads(text)
        known = one["client_rack"] and one["replica_rack"]
        read[one["group"]] += one["bytes"]
        crossed[one["group"]] += one["bytes"] if known and one["client_rack"] != one["replica_rack"] else 0
    assert made.headline.bytes == sum(read.values()) == sum(pair.bytes for pair in made.pairs)
    assert made.headline.crossing_bytes == sum(crossed.values())
    assert made.headline.dollars == pytest.approx(AWS.dollars(sum(crossed.values())))
    assert made.headline.month.spent == pytest.approx(made.headline.dollars / (3 * 86400) * SECONDS_PER_MONTH)
    assert {one.group: (one.bytes, one.crossing_bytes) for one in made.groups} == {
        group: (read[group], crossed[group]) for group in read
    }
    assert [day.day for day in made.days] == [date(2025, 11, 1) + timedelta(days=n) for n in range(3)]
    assert sum(day.crossing_bytes for day in made.days) == sum(moment.crossing_bytes for moment in made.timeline)
    assert made.headline.month.possible is not None
    assert made.headline.month.possible > 0
    (trend,) = made.trends
    assert trend.later == pytest.approx(made.days[-1].dollars)
    assert (made.bad, made.twice, made.failed) == ((), 0, 0)


def test_sums_that_do_not_fit_stop_at_the_most(spark: SparkSession) -> None:
    """Rows with the largest possible sums still give a report."""
    found = tables(spark, [*minutes(3), *minutes(3, number=10, group="other", agent="a@b", election="")], [state(1)])
    full = replace(found, traffic=found.traffic.withColumns({"bytes": F.lit(FULL), "records": F.lit(FULL)}))
    made = reported(full)
    assert (made.headline.bytes, made.headline.crossing_bytes, made.headline.exact_bytes) == (FULL, FULL, FULL)
    assert [day.bytes for day in made.days] == [one.bytes for one in made.pairs] == [FULL]
    assert [one.bytes for one in made.groups] == [FULL, FULL]
    assert [one.bytes for one in made.topics] == [FULL]
    assert made.headline.dollars == pytest.approx(2 * AWS.dollars(FULL))


def test_reasons_without_end_are_told_together(spark: SparkSession) -> None:
    """The most frequent reasons come first, the rest is one line, and the sum includes all of them."""
    bad = [sample(1, schema=2), *(sample(1, schema=1 + number) for number in range(1, 71))]
    made = reported(tables(spark, [*minutes(1), *bad], []))
    assert (made.bad[0].reason, made.bad[0].records) == ("schema: unknown version 2", 2)
    assert (made.bad[-1].reason, made.bad[-1].records) == ("other reasons", 20)
    assert sum(one.records for one in made.bad) == 71


def test_one_id_for_many_states_makes_no_more_chapters(spark: SparkSession) -> None:
    """Each structure is evaluated once, even if many states have the same id."""
    same = {"at": START, "id": "same"}
    rates = [[{**topics([0, 1])[0], "bytes_per_second": [float(n), 1.0]}] for n in range(5)]
    states = [state(0, **{**FAR, **same, "topics": one}) for one in rates]
    states += [state(0, **{**LED, **same, "agent": "agent@host"})]
    found = tables(spark, minutes(1), states)
    rows = chapters.picked(found.states.where(F.col("id") == "same")).collect()
    assert rows
    assert len(rows) == len({json.loads(row["value"])["role"] for row in rows})


def test_only_led_groups_save(spark: SparkSession) -> None:
    """The group's own assignor reads all across racks: the led group saved all of it, the other one still could."""
    far = {"client_rack": "rack-a", "replica_rack": "rack-b"}
    near = {"client_rack": "rack-a", "replica_rack": "rack-a"}
    samples = [*minutes(4, group="far", **far), *minutes(4, group="led", number=100, **near)]
    states = [
        state(base + n, group=group, at=START + n * MINUTE, **facts)
        for group, facts, base in (("far", FAR, 0), ("led", LED, 100))
        for n in range(4)
    ]
    made = reported(tables(spark, samples, states))
    lines = {one.group: one for one in made.groups}
    month = AWS.dollars(4000) / 240 * SECONDS_PER_MONTH
    assert lines["led"].month.saved == pytest.approx(month)
    assert lines["led"].month.possible == 0
    assert lines["far"].month.saved == 0
    assert lines["far"].month.possible == pytest.approx(month)
    assert (lines["led"].led, lines["far"].led) == (1.0, 0.0)
    assert made.headline.led_groups == 1
    assert made.unit == "minute"


def test_a_group_led_for_half_a_day_saves_half(spark: SparkSession) -> None:
    """Chapters are weighted by their number of states."""
    states = [state(n, at=START + n * MINUTE, **(FAR if n < 2 else LED)) for n in range(4)]
    samples = [*minutes(2), *minutes(4, number=10, client_rack="rack-b")[2:]]
    (line,) = reported(tables(spark, samples, states)).groups
    assert line.led == 0.5
    assert line.month.saved == pytest.approx(AWS.dollars(2000) / 240 * SECONDS_PER_MONTH)
    assert line.month.possible == 0  # nothing is left to save: the agent leads now


def test_what_is_measured_side_by_side_counts_once(spark: SparkSession) -> None:
    """Without a common election the agent that saw most counts in each minute; a group is led if one of them leads."""
    other = {"agent": "other@host", "election": ""}
    samples = [
        *minutes(4),
        *minutes(4, number=10, client_rack="", bytes=900, **other),
        *minutes(1, number=20, group="handed over", bytes=400),
        *minutes(2, number=30, group="handed over", bytes=600, **other),
    ]
    states = [
        state(10 * n + m, at=START + n * MINUTE, agent=agent, **facts)
        for n in range(4)
        for m, (agent, facts) in enumerate((("agent@host", LED), ("other@host", FAR)))
    ]
    made = reported(tables(spark, samples, states))
    lines = {one.group: one for one in made.groups}
    assert (lines["orders"].bytes, lines["orders"].crossing_bytes, lines["orders"].led) == (4000, 4000, 1.0)
    assert lines["handed over"].bytes == 1200
    assert made.headline.unknown_bytes == 0
    assert sum(moment.bytes for moment in made.timeline) == made.headline.bytes == 5200
    assert made.twice == 2


def test_what_agents_of_one_election_counted_adds_up(spark: SparkSession) -> None:
    """Counts of the agent beside a member and of the elected agent are added, since they count different members."""
    samples = [*minutes(4), *minutes(4, number=10, agent="beside@host", bytes=1), *minutes(1, number=20, bytes=20)]
    made = reported(tables(spark, samples, []))
    assert (made.headline.bytes, made.twice) == (4024, 0)


def test_a_count_that_follows_another_is_not_beside_it(spark: SparkSession) -> None:
    """Only the minute of the handover has both counts; rows of older versions without a counter all count."""
    after = minutes(60, number=100, agent="other@host", election="")[29:]
    found = tables(spark, [*minutes(30), *after], [])
    made = reported(found)
    assert (made.headline.bytes, made.twice) == (60_000, 0)
    old = F.when(F.col("counted_by") != "samerack", F.col("counted_by"))
    made = reported(replace(found, traffic=found.traffic.withColumn("counted_by", old)))
    assert (made.headline.bytes, made.twice) == (61_000, 0)


def test_groups_without_states_are_no_zeros(spark: SparkSession) -> None:
    """Bytes are reported, savings are unknown."""
    made = reported(tables(spark, minutes(2), []))
    assert made.headline.month.saved is None
    assert made.groups[0].month.possible is None
    assert made.headline.judged_bytes == 0


def test_states_that_contradict_themselves_and_bad_records_are_told(spark: SparkSession) -> None:
    """The report counts them and evaluates the rest."""
    wrong = state(1, members=MEMBERS, topics=topics([0, 7]))
    made = reported(tables(spark, [*minutes(2), b"no record"], [wrong]))
    assert made.failed + sum(bad.records for bad in made.bad) == 2
    assert made.headline.bytes == 2000


@pytest.mark.parametrize(
    ("asked", "told"),
    [(Asked(first=date(2025, 12, 1)), "has 2025-11-01 to 2025-11-01"), (Asked(last=date(2025, 10, 1)), "--from and")],
)
def test_an_empty_period_says_what_there_is(spark: SparkSession, asked: Asked, told: str) -> None:
    """The error names the days in the tables; no empty page replaces a good one."""
    with pytest.raises(AgentError, match=told):
        reported(tables(spark, minutes(2), []), asked)


def test_an_empty_table_says_what_fills_it(spark: SparkSession) -> None:
    """The error names agents that publish."""
    with pytest.raises(AgentError, match="let agents publish"):
        reported(tables(spark, [], []))


def chapter(number: int, **changes: Any) -> dict[str, Any]:
    """A chapter of a group that reads mostly in its racks."""
    at = datetime(2025, 11, 1, 12, tzinfo=UTC) + timedelta(hours=number)
    facts = {
        "day": at.date(), "cluster": "east", "group": "orders", "first": at, "states": 1, "kind": "classic",
        "assignor": "range", "role": "", "members": 4, "rackless": 0, "telling": 4, "fetching": 4, "random": 2 / 3,
        "present": 0.1, "expected": 0.1, "own": None, "possible": 0.0, "error": None,
    }  # fmt: skip
    return {**facts, **changes}


def lost(spark: SparkSession, *told: dict[str, Any]) -> list[Row]:
    """The losses of these chapters, for a group that reads 1000 bytes in ten seconds."""
    frame = spark.createDataFrame([tuple(one[name] for name in CHAPTER.names) for one in told], CHAPTER)
    groups: DataFrame = frame.select("cluster", "group").distinct().withColumn("bytes", F.lit(1000))
    return losses.losses(frame, groups, 10.0, AWS).collect()


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        ({"rackless": 4, "telling": 0, "fetching": 0, "expected": 0.66}, losses.FORGOT),
        ({"telling": 1, "fetching": 1, "expected": 0.4}, losses.UNTOLD),
        ({"telling": 1, "expected": 0.4}, losses.UNTOLD),
        ({"telling": None, "fetching": 1, "expected": 0.4}, losses.UNFETCHED),
        ({"kind": "consumer", "assignor": "uniform", "expected": 0.5}, losses.KIP_848),
        ({"assignor": "roundrobin", "expected": 0.3}, losses.PROTOCOL),
        ({"expected": 0.62}, losses.ROSE),
    ],
)
def test_a_loss_is_told_with_its_cause(spark: SparkSession, after: dict[str, Any], cause: str) -> None:
    """A loss has its time, its cause, and its cost a month."""
    (row,) = lost(spark, chapter(0), chapter(1, **after), chapter(30, **after))
    assert row["cause"] == cause
    assert row["at"].astimezone(UTC) == datetime(2025, 11, 1, 13, tzinfo=UTC)
    assert row["lasts"]
    assert row["dollars_per_month"] == pytest.approx(AWS.dollars(100 * (after["expected"] - 0.1)) * SECONDS_PER_MONTH)


def test_an_agent_that_left_is_a_loss_and_may_come_back(spark: SparkSession) -> None:
    """A loss that has ended is reported, too."""
    (row,) = lost(spark, chapter(0, role="leading"), chapter(1, expected=0.5), chapter(2, role="leading"))
    assert (row["cause"], row["lasts"]) == (losses.UNLED, False)


@pytest.mark.parametrize("after", [{"expected": 0.14}, {"expected": 0.3}, {"rackless": 4, "expected": 0.1}])
def test_a_small_rise_is_no_loss(spark: SparkSession, after: dict[str, Any]) -> None:
    """Nor is a rise without a cause that stays far from random."""
    assert lost(spark, chapter(0), chapter(1, **after)) == []


def test_a_day_of_equal_states_is_one_chapter(spark: SparkSession) -> None:
    """Rates may change; only members, replicas and owners start a new chapter."""
    rates = [{**topics([0, 1])[0], "bytes_per_second": [float(n), 2.0]} for n in range(3)]
    states = [
        *(state(n, at=START + n * MINUTE, **{**FAR, "topics": [rates[n]]}) for n in range(3)),
        state(9, at=START + 9 * MINUTE, **LED),
    ]
    rows = chapters.worked_out(chapters.picked(tables(spark, [], states).states)).orderBy("first").collect()
    assert [(row["states"], row["present"], row["own"]) for row in rows] == [(3, 1.0, None), (1, 0.0, 1.0)]
    (shared,) = savings.shares(spark.createDataFrame(rows, CHAPTER)).collect()
    assert shared["led"] == 0.25
