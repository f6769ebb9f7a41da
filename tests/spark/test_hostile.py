"""A client that may write to the topics can neither stop a stream nor make it lose good records."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sandbox.admin import Admin
from tests.spark.publishers import HOSTILE, PUBLISHERS, Publisher, Sent, publish, sample, state
from tests.spark.stream_process import Source, read_to_the_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONFIG: Final = {"message.timestamp.type": "LogAppendTime"}
"""The topic setting that docs/pipeline.md requires."""


@pytest.fixture
def source(bootstrap: str) -> Source:
    """Two empty topics, and a stream with its default bounds."""
    name = uuid.uuid4().hex[:12]
    made = Source(bootstrap=bootstrap, traffic=f"traffic-{name}", states=f"states-{name}", late_days=30)
    with Admin(bootstrap) as admin:
        for topic in (made.traffic, made.states):
            admin.create_topic(topic, [[1]], config=CONFIG)
    return made


def good(*numbers: int) -> Publisher:
    """An agent that sends a sample of 1000 bytes and a state for each number."""
    return Publisher(
        name="good",
        samples=tuple(Sent(sample(number)) for number in numbers),
        states=tuple(Sent(state(number)) for number in numbers),
    )


@pytest.mark.timeout(400)  # two starts of a stream; some seconds on an idle machine
@pytest.mark.parametrize("publisher", PUBLISHERS, ids=lambda one: one.name)
def test_a_hostile_publisher_costs_nobody_a_good_record(
    publisher: Publisher, source: Source, spark: SparkSession, tmp_path: Path
) -> None:
    """Good records of its batch, and of one after a restart, count; each bad one is in quarantine with a reason."""
    for agent in (good(1, 2, 3), good(4)):
        if agent.samples[1:]:
            publish(source, publisher)
        publish(source, agent)
        read_to_the_end(spark, source, tmp_path)

    def kept(name: str) -> DataFrame:
        return spark.read.format("delta").load(f"{tmp_path}/{name}")

    traffic, states = kept("traffic_by_minute"), kept("group_states")
    (orders,) = traffic.where(traffic["group"] == "orders").collect()
    assert (orders["bytes"], orders["records"], orders["samples"]) == (4000, 40, 4)
    found = states.where(states["group"] == "orders").select("id").collect()
    assert sorted(row["id"] for row in found) == [f"state-{number}" for number in range(1, 5)]
    own = traffic.where(traffic["group"] == HOSTILE)
    assert own.count() == publisher.rows
    if publisher.rows:
        sums = own.selectExpr("sum(samples) AS samples", "sum(bytes) AS bytes").collect()[0]
        assert (sums["samples"], sums["bytes"]) == (publisher.counts, publisher.bytes)
    assert Counter(row["reason"] for row in kept("quarantine").collect()) == publisher.reasons
    assert len(list((tmp_path / "traffic_by_minute").glob("day=*"))) == 1


def test_topics_set_up_as_the_page_says_refuse_what_swells_when_it_is_read(bootstrap: str) -> None:
    """A topic with default settings accepts fifty megabytes as some kilobytes of zstd; one of ours refuses them."""
    bomb = Publisher(name="bomb", samples=(Sent(bytes(50_000_000)),))
    for config, refused in (({}, False), ({**CONFIG, "compression.type": "uncompressed"}, True)):
        topic = f"bomb-{uuid.uuid4().hex[:12]}"
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, [[1]], config=config)
        with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE") if refused else nullcontext():
            publish(Source(bootstrap=bootstrap, traffic=topic, states=topic), bomb)
