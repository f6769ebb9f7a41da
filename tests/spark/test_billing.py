"""Who pays: owners by patterns, the sums of each, and charges in FOCUS's columns that add up to the dollars."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

import pytest
from pyspark.sql import SparkSession

from samerack.common.money import SECONDS_PER_MONTH, shipped
from samerack.common.patterns import first_match
from samerack.pipeline.report.billing import NOBODY, owner_of
from samerack.pipeline.report.gather import Asked, gathered
from tests.spark.test_report import minutes, tables

AWS: Final = shipped("aws")
OWNERS: Final = {
    "orders-*": "team-orders",
    "orders[prod]": "literal",
    "o?d*": "short",
    "\\!*": "odd",
    "[!a-z]*": "upper",
    "b[a[]": "bracket",
}
NAMES: Final = (
    "orders-eu",
    "orders[prod]",
    "ordersp",
    "old",
    "odd",
    "!mine",
    "Payments",
    "payments",
    "orders-.*",
    "a b",
    "b[",
)


def test_patterns_fit_as_everywhere_else(spark: SparkSession) -> None:
    """The first pattern that fits counts, on Spark as in the agent."""
    rows = spark.createDataFrame([(name,) for name in NAMES], "`group` string").withColumn("owner", owner_of(OWNERS))
    assert {row["group"]: row["owner"] for row in rows.collect()} == {
        name: first_match(OWNERS, name) or NOBODY for name in NAMES
    }


def test_owners_pay_for_their_groups_and_charges_add_up(spark: SparkSession) -> None:
    """Each group has one owner or none; what crosses racks is a charge of its day, what is near costs nothing."""
    samples = [
        *minutes(3, group="orders-eu", client_rack="rack-a", replica_rack="rack-b"),
        *minutes(2, group="orders-us", number=10, client_rack="rack-b", replica_rack="rack-a"),
        *minutes(4, group="payments", number=20, client_rack="rack-a", replica_rack="rack-b", bytes=500),
        *minutes(4, group="near", number=30, client_rack="rack-a", replica_rack="rack-a"),
        *minutes(4, group="unknown", number=40, client_rack="", replica_rack="rack-a"),
    ]
    found = tables(spark, samples, [])
    with gathered(found, AWS, Asked(owners={"orders-*": "team-orders"})) as made:
        report = made.report
        charges = made.frames["focus"].orderBy("ResourceName").collect()
        owned = {row["group"]: row["owner"] for row in made.frames["groups_by_day"].collect()}
    assert [(one.owner, one.groups, one.bytes, one.crossing_bytes) for one in report.owners] == [
        ("team-orders", 2, 5_000, 5_000),
        ("", 3, 10_000, 2_000),
    ]
    scale = SECONDS_PER_MONTH / report.period.seconds
    assert [one.month.spent for one in report.owners] == pytest.approx([AWS.dollars(n) * scale for n in (5_000, 2_000)])
    assert [one.month.saved for one in report.owners] == [None, None]
    assert {group for group, owner in owned.items() if owner} == {"orders-eu", "orders-us"}
    for name in ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"):
        assert sum(one[name] for one in charges) == pytest.approx(report.headline.dollars)
    dollars = sum(one["ConsumedQuantity"] * one["ListUnitPrice"] for one in charges)
    assert dollars == pytest.approx(report.headline.dollars)
    assert [(one["ResourceName"], one["SubAccountId"]) for one in charges] == [
        ("orders-eu", "team-orders"),
        ("orders-us", "team-orders"),
        ("payments", None),
    ]
    assert {one["ConsumedUnit"] for one in charges} == {"GiB"}  # all price tables count in 2^30 bytes
    assert json.loads(charges[0]["Tags"]) == {
        "cluster": "east",
        "group": "orders-eu",
        "topic": "clicks",
        "client_rack": "rack-a",
        "replica_rack": "rack-b",
        "owner": "team-orders",
    }
    periods = [f"{period}Period{end}" for period in ("Billing", "Charge") for end in ("Start", "End")]
    assert [charges[0][name].astimezone(UTC) for name in periods] == [
        datetime(2025, 11, 1, tzinfo=UTC),
        datetime(2025, 12, 1, tzinfo=UTC),
        datetime(2025, 11, 1, tzinfo=UTC),
        datetime(2025, 11, 2, tzinfo=UTC),
    ]


def test_without_owners_nobody_is_named(spark: SparkSession) -> None:
    """The report has no owners then, and the charges an empty one."""
    with gathered(tables(spark, minutes(2, client_rack="rack-a", replica_rack="rack-b"), []), AWS, Asked()) as made:
        assert made.report.owners == ()
        assert [row["SubAccountId"] for row in made.frames["focus"].collect()] == [None]
