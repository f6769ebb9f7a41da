"""A client that may write to the topics can neither stop a stream nor make it lose good records."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sandbox.admin import Admin
from tests.spark.publishers import HOSTILE, PUBLISHERS, Publisher, Sent, named, publish, sample, state
from tests.spark.stream_process import Source, read_to_the_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

CONFIG: Final = {"message.timestamp.type": "LogAppendTime"}
"""The topic setting that docs/pipeline.md requires."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a stream wrote that read the records of all publishers beside good ones.

    Attributes:
        folder: Its tables.
        sent: Topic and offset of each record, by publisher.
        traffic: The rows of `traffic_by_minute`, by group.
        states: The ids in `group_states`, by group.
        reasons: The reasons in the quarantine, by topic and offset.
    """

    folder: Path
    sent: Mapping[str, set[tuple[str, int]]]
    traffic: Mapping[str, Sequence[Row]]
    states: Mapping[str, Sequence[str]]
    reasons: Mapping[tuple[str, int], str]


@pytest.fixture(scope="module")
def read(bootstrap: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """The tables after a batch of all publishers' records and good ones, and good ones after a restart."""
    name, folder = uuid.uuid4().hex[:12], tmp_path_factory.mktemp("hostile")
    source = Source(bootstrap=bootstrap, traffic=f"traffic-{name}", states=f"states-{name}", late_days=30)
    with Admin(bootstrap) as admin:
        for topic in (source.traffic, source.states):
            admin.create_topic(topic, [[1]], config=CONFIG)
    sent = {one.name: publish(source, named(number, one)) for number, one in enumerate(PUBLISHERS)}
    for agent in (good(1, 2, 3), good(4)):
        publish(source, agent)
        read_to_the_end(spark, source, folder)
    traffic: dict[str, list[Row]] = defaultdict(list)
    states: dict[str, list[str]] = defaultdict(list)
    for row in table(spark, folder, "traffic_by_minute").collect():
        traffic[row["group"]].append(row)
    for row in table(spark, folder, "group_states").select("group", "id").collect():
        states[row["group"]].append(row["id"])
    refused = table(spark, folder, "quarantine").select("topic", "offset", "reason").collect()
    reasons = {(row["topic"], row["offset"]): row["reason"] for row in refused}
    assert len(reasons) == len(refused), "a record is in quarantine twice"
    return Read(folder, sent, traffic, states, reasons)


def good(*numbers: int) -> Publisher:
    """An agent that sends a sample of 1000 bytes and a state for each number."""
    return Publisher(
        name="good",
        samples=tuple(Sent(sample(number)) for number in numbers),
        states=tuple(Sent(state(number)) for number in numbers),
    )


def table(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """One of the tables."""
    return spark.read.format("delta").load(f"{folder}/{name}")


@pytest.mark.timeout(400)  # two starts of a stream
def test_hostile_publishers_cost_nobody_a_good_record(read: Read) -> None:
    """Good records of their batch, and of one after a restart, count; no table has a day of its own for bad ones."""
    (orders,) = read.traffic["orders"]
    assert (orders["bytes"], orders["records"], orders["samples"]) == (4000, 40, 4)
    assert sorted(read.states["orders"]) == [f"state-{number}" for number in range(1, 5)]
    assert len(list((read.folder / "traffic_by_minute").glob("day=*"))) == 1


@pytest.mark.timeout(400)  # two starts of a stream
@pytest.mark.parametrize("number", range(len(PUBLISHERS)), ids=[one.name for one in PUBLISHERS])
def test_what_a_hostile_publisher_sends_counts_for_its_own_group_or_not_at_all(number: int, read: Read) -> None:
    """Each bad record is in quarantine with a reason; what looks good counts for the group that it names."""
    publisher = PUBLISHERS[number]
    own = read.traffic.get(f"{HOSTILE}-{number}", ())
    assert len(own) == publisher.rows
    assert sum(row["samples"] for row in own) == publisher.counts
    assert sum(row["bytes"] for row in own) == publisher.bytes
    sent = read.sent[publisher.name]
    assert Counter(reason for place, reason in read.reasons.items() if place in sent) == publisher.reasons


def test_topics_set_up_as_the_page_says_refuse_what_swells_when_it_is_read(bootstrap: str) -> None:
    """A topic with default settings accepts fifty megabytes as some kilobytes of zstd; one of ours refuses them."""
    bomb = Publisher(name="bomb", samples=(Sent(bytes(50_000_000)),))
    for config, refused in (({}, False), ({**CONFIG, "compression.type": "uncompressed"}, True)):
        topic = f"bomb-{uuid.uuid4().hex[:12]}"
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, [[1]], config=config)
        with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE") if refused else nullcontext():
            publish(Source(bootstrap=bootstrap, traffic=topic, states=topic), bomb)
