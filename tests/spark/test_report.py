"""The report's figures on Spark (bytes, dollars, savings, losses, trends) against values computed independently."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.errors import AgentError
from samerack.common.money import SECONDS_PER_MONTH, shipped
from samerack.pipeline import parsing
from samerack.pipeline.parsing import quarantined
from samerack.pipeline.report import chapters, figures
from samerack.pipeline.report.chapters import CHAPTER
from samerack.pipeline.report.fleet_report import FleetReport, GroupLine
from samerack.pipeline.report.gather import Asked, Tables, gathered
from samerack.pipeline.schema import FULL
from samerack.pipeline.simulate import messages
from samerack.pipeline.simulate_cast import DAY, Fleet
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
    """The tables that the stream makes of records: rows without their history, as tables on disk are."""
    records = parsing.parsed(raw(spark, samples=list(samples), states=list(states)), SETTINGS).persist()
    found = Tables(
        traffic=parsing.traffic(records).localCheckpoint(),
        states=parsing.states(records).localCheckpoint(),
        quarantine=quarantined(records).localCheckpoint(),
    )
    records.unpersist()
    return found


def reported(found: Tables, asked: Asked | None = None) -> FleetReport:
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


def test_reasons_without_end_are_reported_together_and_no_states_are_no_zeros(spark: SparkSession) -> None:
    """The most frequent reasons come first, the rest is one line; without states, savings are unknown."""
    bad = [sample(1, schema=2), *(sample(1, schema=1 + number) for number in range(1, 71))]
    made = reported(tables(spark, [*minutes(2), *bad], []))
    assert (made.bad[0].reason, made.bad[0].records) == ("schema: unknown version 2", 2)
    assert (made.bad[-1].reason, made.bad[-1].records) == ("other reasons", 20)
    assert sum(one.records for one in made.bad) == 71
    assert made.headline.month.saved is None
    assert (made.headline.bytes, made.headline.judged_bytes) == (2000, 0)
    assert made.groups[0].month.possible is None


ALONE: Final = {"agent": "other@host", "election": ""}
SAMPLES: Final = {
    "far": minutes(4, group="far", client_rack="rack-a", replica_rack="rack-b"),
    "led": minutes(4, group="led", number=100, client_rack="rack-a", replica_rack="rack-a"),
    "half": [
        *minutes(2, group="half", number=200),
        *minutes(4, group="half", number=210, client_rack="rack-b")[2:],
    ],
    "beside": [
        *minutes(4, group="beside", number=300),
        *minutes(4, group="beside", number=310, client_rack="", bytes=900, **ALONE),
    ],
    "handed over": [
        *minutes(1, group="handed over", number=400, bytes=400),
        *minutes(2, group="handed over", number=410, bytes=600, **ALONE),
    ],
    "elected": [
        *minutes(4, group="elected", number=500),
        *minutes(4, group="elected", number=510, agent="beside@host", bytes=1),
        *minutes(1, group="elected", number=520, bytes=20),
    ],
    **{
        name: [*minutes(30, group=name, number=base), *minutes(60, group=name, number=base + 100, **ALONE)[29:]]
        for name, base in (("followed", 1000), ("old", 2000))
    },
    "wrong": [*minutes(2, group="wrong", number=600), b"no record"],
}
"""Samples of groups that are reported together, by group."""
STATES: Final = {
    "far": [state(n, group="far", at=START + n * MINUTE, **FAR) for n in range(4)],
    "led": [state(100 + n, group="led", at=START + n * MINUTE, **LED) for n in range(4)],
    "half": [state(200 + n, group="half", at=START + n * MINUTE, **(FAR if n < 2 else LED)) for n in range(4)],
    "beside": [
        state(300 + 10 * n + m, group="beside", at=START + n * MINUTE, agent=agent, **facts)
        for n in range(4)
        for m, (agent, facts) in enumerate((("agent@host", LED), ("other@host", FAR)))
    ],
    "wrong": [state(600, group="wrong", members=MEMBERS, topics=topics([0, 7]))],
}
MONTH: Final = SECONDS_PER_MONTH / 3600
"""Dollars of the hour that is reported, as dollars a month."""


@pytest.fixture(scope="module")
def hour(spark: SparkSession) -> Tables:
    """The tables of `SAMPLES` and `STATES`; the group `old` has rows of an older version, without a counter."""
    found = tables(spark, chain(*SAMPLES.values()), chain(*STATES.values()))
    alone = F.when((F.col("group") != "old") | (F.col("counted_by") != "samerack"), F.col("counted_by"))
    return replace(found, traffic=found.traffic.withColumn("counted_by", alone))


@pytest.fixture(scope="module")
def made(hour: Tables) -> FleetReport:
    """The report of that hour, which tests only read."""
    return reported(hour)


@pytest.fixture(scope="module")
def lines(made: FleetReport) -> dict[str, GroupLine]:
    """Its lines, by group."""
    return {one.group: one for one in made.groups}


def test_only_led_groups_save(made: FleetReport, lines: dict[str, GroupLine]) -> None:
    """The group's own assignor reads all across racks: the led group saved all of it, the other one still could."""
    month = pytest.approx(AWS.dollars(4000) * MONTH)
    assert lines["led"].month.saved == month
    assert lines["led"].month.possible == 0
    assert lines["far"].month.saved == 0
    assert lines["far"].month.possible == month
    assert (lines["led"].led, lines["far"].led) == (1.0, 0.0)
    assert made.headline.led_groups == len({"led", "half", "beside"})
    assert made.unit == "minute"


def test_a_group_led_for_half_a_day_saves_half(lines: dict[str, GroupLine]) -> None:
    """Chapters are weighted by their number of states."""
    assert lines["half"].led == 0.5
    assert lines["half"].month.saved == pytest.approx(AWS.dollars(2000) * MONTH)
    assert lines["half"].month.possible == 0  # nothing is left to save: the agent leads now


def test_what_is_measured_side_by_side_counts_once(made: FleetReport, lines: dict[str, GroupLine]) -> None:
    """Without a common election the agent that saw most counts in each minute; a group is led if one of them leads."""
    one = lines["beside"]
    assert (one.bytes, one.crossing_bytes, one.led) == (4000, 4000, 1.0)
    assert lines["handed over"].bytes == 1200
    assert made.headline.unknown_bytes == 0
    assert sum(moment.bytes for moment in made.timeline) == made.headline.bytes
    assert made.twice == len({"beside", "handed over"})


def test_what_agents_of_one_election_counted_adds_up(lines: dict[str, GroupLine]) -> None:
    """Counts of the agent beside a member and of the elected agent are added, since they count different members."""
    assert lines["elected"].bytes == 4024


def test_a_count_that_follows_another_is_not_beside_it(lines: dict[str, GroupLine]) -> None:
    """Only the minute of the handover has both counts; rows of older versions without a counter all count."""
    assert lines["followed"].bytes == 60_000
    assert lines["old"].bytes == 61_000


def test_the_bytes_of_all_groups_add_up(made: FleetReport, lines: dict[str, GroupLine]) -> None:
    """The fleet's bytes are those of its groups; those of groups with states are evaluated, the others are no zeros."""
    assert made.headline.bytes == 4000 * 4 + 1200 + 4024 + 60_000 + 61_000 + 2000
    assert made.headline.judged_bytes == 4000 * 4
    assert {name for name, one in lines.items() if one.month.possible is None} == lines.keys() - {
        "far",
        "led",
        "half",
        "beside",
    }


def test_states_that_contradict_themselves_and_bad_records_are_counted(
    made: FleetReport, lines: dict[str, GroupLine]
) -> None:
    """The report counts them and evaluates the rest."""
    assert made.failed + sum(bad.records for bad in made.bad) == 2
    assert lines["wrong"].bytes == 2000


@pytest.mark.parametrize(
    ("asked", "message"),
    [(Asked(first=date(2025, 12, 1)), "has 2025-11-01 to 2025-11-01"), (Asked(last=date(2025, 10, 1)), "--from and")],
)
def test_an_empty_period_says_what_there_is(hour: Tables, asked: Asked, message: str) -> None:
    """The error names the days in the tables; no empty page replaces a good one."""
    with pytest.raises(AgentError, match=message):
        reported(hour, asked)


def test_an_empty_table_says_what_fills_it(hour: Tables) -> None:
    """The error names agents that publish."""
    with pytest.raises(AgentError, match="let agents publish"):
        reported(replace(hour, traffic=hour.traffic.where("false")))


def chapter(number: int, **changes: Any) -> dict[str, Any]:
    """A chapter of a group that reads mostly in its racks."""
    at = datetime(2025, 11, 1, 12, tzinfo=UTC) + timedelta(hours=number)
    facts = {
        "day": at.date(), "cluster": "east", "group": "orders", "first": at, "last": at, "minutes": 1,
        "kind": "classic", "assignor": "range", "role": "", "members": 4, "rackless": 0, "sending": 4,
        "fetching": 4, "random": 2 / 3, "present": 0.1, "expected": 0.1, "own": None, "possible": 0.0, "error": None,
    }  # fmt: skip
    return {**facts, **changes}


CAUSES: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"rackless": 4, "sending": 0, "fetching": 0, "expected": 0.66}, figures.FORGOT),
    ({"sending": 1, "fetching": 1, "expected": 0.4}, figures.UNSENT),
    ({"sending": 1, "expected": 0.4}, figures.UNSENT),
    ({"sending": None, "fetching": 1, "expected": 0.4}, figures.UNFETCHED),
    ({"kind": "consumer", "assignor": "uniform", "expected": 0.5}, figures.KIP_848),
    ({"assignor": "roundrobin", "expected": 0.3}, figures.PROTOCOL),
    ({"expected": 0.62}, figures.ROSE),
)
"""What changes from a chapter to the next, and the cause of the loss."""
SMALL: Final = ({"expected": 0.14}, {"expected": 0.3}, {"rackless": 4, "expected": 0.1})


@pytest.fixture(scope="module")
def lost(spark: SparkSession) -> dict[str, list[Row]]:
    """The losses of every case, by its group, which reads 1000 bytes in ten seconds."""
    cases = {
        **{
            f"cause {n}": [chapter(0), chapter(1, **after), chapter(30, **after)] for n, (after, _) in enumerate(CAUSES)
        },
        **{f"small {n}": [chapter(0), chapter(1, **after)] for n, after in enumerate(SMALL)},
        "left": [chapter(0, role="leading"), chapter(1, expected=0.5), chapter(2, role="leading")],
    }
    chapters_of = [{**one, "group": group} for group, chapters in cases.items() for one in chapters]
    frame = spark.createDataFrame([tuple(one[name] for name in CHAPTER.names) for one in chapters_of], CHAPTER)
    groups: DataFrame = frame.select("cluster", "group").distinct().withColumn("bytes", F.lit(1000))
    rows = figures.losses(frame, groups, 10.0, AWS).collect()
    return {group: [row for row in rows if row["group"] == group] for group in cases}


@pytest.mark.parametrize("number", range(len(CAUSES)), ids=[cause for _, cause in CAUSES])
def test_a_loss_is_reported_with_its_cause(lost: dict[str, list[Row]], number: int) -> None:
    """A loss has its time, its cause, and its cost a month."""
    after, cause = CAUSES[number]
    (row,) = lost[f"cause {number}"]
    assert row["cause"] == cause
    assert row["at"].astimezone(UTC) == datetime(2025, 11, 1, 13, tzinfo=UTC)
    assert row["lasts"]
    assert row["dollars_per_month"] == pytest.approx(AWS.dollars(100 * (after["expected"] - 0.1)) * SECONDS_PER_MONTH)


def test_an_agent_that_left_is_a_loss_and_may_come_back(lost: dict[str, list[Row]]) -> None:
    """A loss that has ended is reported, too."""
    (row,) = lost["left"]
    assert (row["cause"], row["lasts"]) == (figures.UNLED, False)


def test_each_loss_of_a_day_is_measured_against_the_state_before_it(spark: SparkSession) -> None:
    """The agent gave a group up twice, and leads it in between: the second loss counts, and does not last."""
    cases = [FAR, LED, FAR, LED, FAR, LED]
    found = tables(spark, [], [state(n, at=START + n * MINUTE, **one) for n, one in enumerate(cases)])
    frame = chapters.worked_out(chapters.picked(found.states))
    (shared,) = figures.shares(frame).collect()
    assert (shared["role"], shared["led"], frame.count()) == ("leading", 0.5, 6)
    groups = frame.select("cluster", "group").distinct().withColumn("bytes", F.lit(1000))
    (loss,) = figures.losses(frame, groups, 10.0, AWS).collect()
    assert (loss["cause"], loss["lasts"], loss["at"].timestamp() * 1000) == (figures.UNLED, False, START + 4 * MINUTE)


def test_hours_without_members_take_nothing_from_what_is_saved(spark: SparkSession) -> None:
    """A group of two hours a day reads in these alone, and all that it reads was planned by the agent."""
    away: dict[str, Any] = {"members": 0, "present": None, "possible": None, "expected": None}
    rows = [chapter(0, role="leading", own=0.5, minutes=120), chapter(2, role="waiting", minutes=1320, **away)]
    frame = spark.createDataFrame([tuple(one[name] for name in CHAPTER.names) for one in rows], CHAPTER)
    (shared,) = figures.shares(frame).collect()
    assert (shared["led"], shared["gained"], shared["open"]) == (1.0, pytest.approx(0.4), pytest.approx(0.1))
    assert (shared["role"], shared["members"], shared["present"], shared["possible"]) == ("waiting", 0, 0.1, 0.0)
    (unknown,) = figures.shares(frame.where("members = 0")).collect()
    assert [unknown[name] for name in ("led", "gained", "open", "present", "possible")] == [None] * 5


def test_hours_of_unknown_racks_take_nothing_from_what_is_saved(spark: SparkSession) -> None:
    """The bytes of known racks are those of the afternoon, and so is the share of them that was saved."""
    unknown: dict[str, Any] = {"present": None, "possible": None, "own": None}
    rows = [chapter(0, role="leading", **unknown), chapter(2, role="leading", own=0.5)]
    frame = spark.createDataFrame([tuple(one[name] for name in CHAPTER.names) for one in rows], CHAPTER)
    (shared,) = figures.shares(frame).collect()
    assert (shared["led"], shared["gained"]) == (1.0, pytest.approx(0.4))


def test_a_small_rise_is_no_loss(lost: dict[str, list[Row]]) -> None:
    """Nor is a rise without a cause that stays far from random."""
    assert [lost[f"small {number}"] for number in range(len(SMALL))] == [[]] * len(SMALL)


def test_a_day_of_equal_states_is_one_chapter(spark: SparkSession) -> None:
    """Rates may change; only members, replicas and owners start a new chapter, each once, even under one id."""
    rates = [[{**topics([0, 1])[0], "bytes_per_second": [float(n), 2.0]}] for n in range(5)]
    same = {"at": START, "id": "same", "group": "same"}
    states = [
        *(state(n, at=START + n * MINUTE, **{**FAR, "topics": rates[n]}) for n in range(3)),
        state(9, at=START + 9 * MINUTE, **LED),
        *(state(0, **{**FAR, **same, "topics": one}) for one in rates),
        state(0, **{**LED, **same}),
    ]
    found = chapters.worked_out(chapters.picked(tables(spark, [], states).states)).orderBy("first").collect()
    rows = [row for row in found if row["group"] == "orders"]
    assert [(row["minutes"], row["present"], row["own"]) for row in rows] == [(3, 1.0, None), (1, 0.0, 1.0)]
    assert len([row for row in found if row["group"] == "same"]) == 1, "one for each minute"
    (shared,) = figures.shares(spark.createDataFrame(rows, CHAPTER)).collect()
    assert shared["led"] == 0.25
