"""The what-if on Spark: every group in every scenario, with errors for bad states, and the ranking of changes."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation calls it

from samerack.common.money import SECONDS_PER_MONTH, shipped
from samerack.common.records import GroupState
from samerack.pipeline import tables, whatif
from samerack.pipeline.schema import GROUP_STATE
from samerack.pipeline.simulate import messages
from samerack.pipeline.simulate_cast import START, Fleet
from samerack.pipeline.whatif_group import COPIES, ELECT, PRESENT, Questions, outcomes
from samerack.settings.pipeline import PipelineSettings

PRICES = shipped("aws")
STATES = [
    message.value.decode()
    for message in messages(Fleet(groups=30, days=1, step_seconds=3600, state_seconds=7200))
    if message.kind == "state"
]
LATEST = {GroupState.model_validate_json(text).group: text for text in STATES}


def picked(states: DataFrame) -> DataFrame:
    """The states that are computed by default."""
    return whatif.chosen(whatif.latest(states))[0]


@pytest.fixture(scope="module")
def states(spark: SparkSession) -> DataFrame:
    """All states of the fleet, and two lines that are no states."""
    return spark.createDataFrame([(text,) for text in [*STATES, "not JSON", '{"cluster":"c"}']], "value string")


@pytest.fixture(scope="module")
def rows(states: DataFrame) -> DataFrame:
    """Every scenario of the latest states."""
    return whatif.ask(picked(states), Questions(), PRICES).cache()


@pytest.mark.promise(
    "The what-if on Spark gives every group of a fleet the outcome and price that the engine computes."
)
def test_every_group_is_asked_about_once(rows: DataFrame) -> None:
    """Each group's latest state gives the result of `outcomes` and its price."""
    present = {row.group: row for row in rows.where(F.col("scenario") == PRESENT).collect()}
    assert present.keys() == LATEST.keys()
    for group, row in present.items():
        expected = outcomes(GroupState.model_validate_json(LATEST[group]), Questions())[0]
        assert row.across == pytest.approx(expected.reads.crossing)
        assert row.dollars == pytest.approx(PRICES.dollars(row.across) * SECONDS_PER_MONTH)


def test_what_is_no_state_is_a_row_with_the_reason(rows: DataFrame) -> None:
    """Other rows are not affected."""
    errors = [row.error for row in rows.where(F.col("error").isNotNull()).collect()]
    assert len(errors) == 2
    assert all(error.startswith("not a valid state: ") for error in errors)


def test_a_state_that_contradicts_itself_fails_alone(spark: SparkSession) -> None:
    """The row with the error names the group."""
    broken = json.loads(STATES[0])
    broken["topics"][0]["owner"][0] = 999
    frame = spark.createDataFrame([(json.dumps(broken),), (STATES[1],)], "value string")
    found = whatif.ask(frame, Questions(), PRICES).collect()
    assert [(row.group, "999" in row.error) for row in found if row.error] == [(broken["group"], True)]
    assert any(row.scenario == PRESENT for row in found)


def test_a_period_leaves_out_states_outside(states: DataFrame) -> None:
    """The latest state of each group within the period is used."""
    begin, end = START + 3_600_000, START + 3 * 3_600_000
    within, left_out = whatif.chosen(whatif.latest(states, until=end), since=begin)
    assert left_out == 0
    parsed = [GroupState.model_validate_json(row.value) for row in within.collect() if '"at"' in row.value]
    of_period = [state for state in map(GroupState.model_validate_json, STATES) if begin <= state.at < end]
    assert len(parsed) == 30
    assert {state.group: state.at for state in parsed} == {state.group: state.at for state in of_period}


def test_one_state_of_each_group_that_still_is_there(spark: SparkSession) -> None:
    """Groups without a state for a day are left out and counted; a leader that was just there comes before watchers."""
    day, minute = 86_400_000, 60_000
    published = [
        ("renamed", "a", "leading", START - day - 1),  # as it was called
        ("quiet", "a", "", START - day),
        ("led", "leader", "leading", START - minute),
        ("led", "watcher", "", START),
        ("led", "leader", "leading", START - 2 * minute),
        ("given-back", "leader", "leading", START - minute),
        ("given-back", "leader", "following", START),
        ("lost", "leader", "leading", START - 60 * minute),
        ("lost", "watcher", "", START),
    ]
    lines = [
        json.dumps({"cluster": "c", "group": name, "agent": agent, "role": role, "at": at, "id": str(number)})
        for number, (name, agent, role, at) in enumerate(published)
    ]
    latest = whatif.latest(spark.createDataFrame([(line,) for line in lines], "value string"))
    for since, names, left in ((None, {"quiet"}, 1), (START - 60 * day, {"quiet", "renamed"}, 0), (START, set(), 2)):
        rows, left_out = whatif.chosen(latest, since=since)
        found = {(one := json.loads(row.value))["group"]: one for row in rows.collect()}
        assert (set(found), left_out) == (names | {"led", "given-back", "lost"}, left)
        assert {name: found[name]["role"] for name in ("led", "given-back", "lost")} == {
            "led": "leading",
            "given-back": "following",
            "lost": "",
        }
        assert found["led"]["at"] == START - minute


def test_a_table_of_states_says_the_same_as_a_file(
    spark: SparkSession, made: PipelineSettings, states: DataFrame, rows: DataFrame
) -> None:
    """The table `group_states` has timestamps and columns instead of JSON, and gives the same rows."""
    parsed = states.select(F.from_json("value", GROUP_STATE).alias("s")).select("s.*").where(F.col("at").isNotNull())
    at = parsed.withColumn("at", F.timestamp_millis("at")).withColumn("day", F.to_date("at"))
    tables.append(at, made, "group_states")
    table = tables.read(spark, made, "group_states")
    again = whatif.ask(picked(whatif.states_in_table(table)), Questions(), PRICES)
    good = rows.where(F.col("error").isNull())
    assert again.exceptAll(good).isEmpty()
    assert good.exceptAll(again).isEmpty()


def row(**fields: object) -> Row:
    """A row of a group's scenario, in bytes a second."""
    usual = dict.fromkeys(whatif.OUTCOME.fieldNames())
    return Row(**{**usual, "cluster": "c", "topic": "", "measured": True, "copying": 0.0, "moves": 0, **fields})


def test_copies_of_a_topic_are_paid_for_once(spark: SparkSession) -> None:
    """Two groups save 7 MB a second each, for copies that fetch 10: both save 4 in total, one alone would lose 3.

    Over the fleet they are two groups, also with copies of another topic.
    """
    usual = {"scenario": COPIES, "reference": "near-lead", "topic": "t", "across": 0.0, "before": 7e6, "copying": 1e7}
    copies = [row(group=name, **usual | {"topic": topic}) for name in ("a", "b") for topic in ("t", "u")]
    changes = whatif.changes(_priced(spark.createDataFrame(copies, whatif.OUTCOME)))
    for found, topic in zip(whatif.ranked(changes).collect(), ("t", "u"), strict=True):
        assert (found.topic, found.groups) == (topic, 2)
        assert found.saves_dollars == pytest.approx(PRICES.dollars(4e6) * SECONDS_PER_MONTH)
    (kind,) = whatif.by_change(changes).collect()
    assert (kind.places, kind.groups) == (2, 2)


def test_changes_come_in_the_order_of_what_they_save(rows: DataFrame) -> None:
    """Every change saves at least a cent, and the kinds that groups can have alone add up to the same sum."""
    found = whatif.changes(rows)
    saves = [one.saves_dollars for one in whatif.ranked(found).collect()]
    assert saves == sorted(saves, reverse=True)
    assert saves[-1] >= whatif.MIN_DOLLARS
    alone = found.where(F.col("scenario") != ELECT)
    saves = [one.saves_dollars for one in whatif.ranked(alone).collect()]
    assert sum(one.saves_dollars for one in whatif.by_change(alone).collect()) == pytest.approx(sum(saves))


def test_what_other_leaders_cost_some_groups_is_taken_off(spark: SparkSession) -> None:
    """Leaders are the same for all readers of a topic: one saves 5 MB a second, which costs another 3."""
    usual = {"scenario": ELECT, "reference": "present"}
    reads = (("a", 5e6, 0.0), ("b", 0.0, 3e6), ("c", 1e6, 1e6))
    rows = [row(group=name, before=before, across=across, **usual) for name, before, across in reads]
    rows.append(row(group="unmeasured", **usual | {"measured": False}))
    (found,) = whatif.by_change(whatif.changes(_priced(spark.createDataFrame(rows, whatif.OUTCOME)))).collect()
    assert (found.scenario, found.places, found.groups) == (ELECT, 2, 2)
    assert found.saves_dollars == pytest.approx(PRICES.dollars(2e6) * SECONDS_PER_MONTH)


def test_totals_show_what_is_paid_and_what_could_be_saved(rows: DataFrame) -> None:
    """The best change of each group never saves more than the group's present and expected cost."""
    (total,) = whatif.totals(rows).collect()
    assert (total.groups, total.failed, total.unmeasured) == (30, 2, 0)
    assert 0 < total.possible_dollars <= total.dollars + PRICES.dollars(total.unknown) * SECONDS_PER_MONTH


def test_no_rates_no_dollars(spark: SparkSession) -> None:
    """Without byte rates, shares are of partitions, and nothing has a price."""
    state = json.loads(STATES[0])
    for topic in state["topics"]:
        topic["bytes_per_second"] = []
    found = whatif.ask(spark.createDataFrame([(json.dumps(state),)], "value string"), Questions(), PRICES).collect()
    assert {(one.dollars, one.across, one.saves_dollars) for one in found} == {(None, None, None)}
    assert all(0 <= one.share <= 1 for one in found)


def _priced(frame: DataFrame) -> DataFrame:
    return whatif._priced(frame, PRICES)
