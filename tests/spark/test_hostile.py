"""A client that may write to the topics can neither stop a stream nor make it lose good records.

Every rule for bad records is in test_stream.py; here are those that a broker has to carry and Spark has to survive.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, Message, Producer

from lab.sandbox.admin import Admin
from tests.records import MINUTE
from tests.spark import records
from tests.spark.stream_process import Source, read_to_the_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
NOW: Final = int(time.time() * 1000)
AT: Final = NOW - HOUR - NOW % MINUTE
"""A past minute, to which every record here belongs unless it says otherwise."""
HOSTILE: Final = "hostile"
"""The group of those hostile records that are counted, because they look like good ones."""
_STAMPED: Final = {"message.timestamp.type": "LogAppendTime"}
"""The setting of topics without which absurd times end a stream."""
_ODD: Final = "longer than 1000 characters, or with control characters"


def sample(number: int | str, **changes: object) -> bytes:
    """A good sample of the current hour."""
    return records.sample(0, **{"id": f"sample-{number}", "window_start": AT, "window_end": AT + MINUTE, **changes})


def state(number: int | str, **changes: object) -> bytes:
    """A good state of the current hour."""
    return records.state(0, **{"id": f"state-{number}", "at": AT, **changes})


def _nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def _with_field(levels: int) -> bytes:
    """A sample with an unknown field of so many levels."""
    return sample(f"deep-{levels}", group=HOSTILE).replace(b'"group"', b'"new": ' + _nested(levels) + b', "group"')


SAMPLES: Final[tuple[tuple[bytes | None, str], ...]] = (
    (None, "empty"),
    (b"\x00" * 100, "not JSON"),
    (_nested(100_000), "not JSON"),
    (b"[" * 500_000, "not JSON"),
    (_with_field(50_000), "not JSON"),
    (_with_field(900), ""),
    (sample("long", bytes=7).replace(b'"bytes": 7', b'"bytes": ' + b"9" * 10_000), "not JSON"),
    (sample("bare", bytes=float("nan")), "not JSON"),
    (sample("name").replace(b'"group"', b'"' + b"f" * 100_000 + b'": 1, "group"'), "not JSON"),
    (sample("topic", topic="t" * 900_000), "topic: no name of a Kafka topic"),
    (sample("group", group="g" * 900_000), f"group: {_ODD}"),
    (sample("escape", cluster="\x1b[2J\x1b]0;owned\x07"), f"cluster: {_ODD}"),
    (sample("large", bytes=2**50), "bytes: absurdly many"),
    (sample("new", schema=99), "schema: unknown version 99"),
    *(
        (sample(n, window_start=n * DAY, window_end=n * DAY + 1), "window_start: more than 30 days ago")
        for n in range(9)
    ),
    # ids that others are going to use, and one id for several records, of which two are equal
    *((sample(number, group=HOSTILE, bytes=1), "") for number in range(1, 5)),
    *((sample("same", group=HOSTILE, bytes=size), "") for size in (2, 3, 3)),
)
"""Hostile samples, each with the reason why it is bad, or without one."""
STATES: Final[tuple[tuple[bytes | None, str], ...]] = (
    (None, "empty"),
    (b'{"members":' + b"[" * 400_000, "not JSON"),
    (state("racks", racks=["r"] * 100_000), "racks: more than 1000"),
    (state("soon", at=NOW + DAY), "at: in the future"),
    (state(1, group=HOSTILE), ""),
)


def _send(source: Source, topic: str, values: tuple[bytes | None, ...], *, odd: bool = False) -> list[str]:
    """Send records in order, odd ones as no agent does: keys, headers and times. Returns what the broker refused."""
    settings = {"bootstrap.servers": source.bootstrap, "log_level": "0", "compression.type": "zstd"}
    producer = Producer({**settings, "message.max.bytes": "100000000"})
    refused: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    for value, at in zip(values, cycle((1, -(2**62), 2**62) if odd else (0,)), strict=False):
        producer.produce(
            topic,
            value,
            b"\xff\xfe\x00" if odd else b"east/orders",
            headers=[("\u2028", b"\xff" * 1000), ("h", None)] if odd else [],
            timestamp=at,
            on_delivery=delivered,
        )
    assert producer.flush(60) == 0
    return refused


def test_hostile_records_cost_nobody_a_good_one(bootstrap: str, spark: SparkSession, tmp_path: Path) -> None:
    """Bad records are in quarantine with a reason, what looks good counts for its own group, good ones all count.

    Good records are in the batch of the hostile ones, and in one after a restart. No table has a day for bad ones.
    """
    name = uuid.uuid4().hex[:12]
    source = Source(bootstrap=bootstrap, traffic=f"traffic-{name}", states=f"states-{name}", late_days=30)
    with Admin(bootstrap) as admin:
        for topic in (source.traffic, source.states):
            admin.create_topic(topic, [[1]], config=_STAMPED)
    for topic, hostile in ((source.traffic, SAMPLES), (source.states, STATES)):
        assert _send(source, topic, tuple(value for value, _ in hostile), odd=True) == []
    for numbers in ((1, 2, 3), (4,)):
        assert _send(source, source.traffic, tuple(map(sample, numbers))) == []
        assert _send(source, source.states, tuple(map(state, numbers))) == []
        read_to_the_end(spark, source, tmp_path)

    def table(name: str) -> DataFrame:
        return spark.read.format("delta").load(f"{tmp_path}/{name}")

    sums = table("traffic_by_minute").groupBy("group").sum("bytes", "samples").collect()
    assert {group: (size, samples) for group, size, samples in sums} == {
        "orders": (4000, 4),
        HOSTILE: (1000 + 4 + 2 + 3, 1 + 4 + 2),
    }
    assert table("traffic_by_minute").select("minute").distinct().count() == 1
    found = Counter((row["group"], row["id"]) for row in table("group_states").collect())
    assert found == Counter([*(("orders", f"state-{number}") for number in range(1, 5)), (HOSTILE, "state-1")])
    refused = table("quarantine").select("topic", "offset", "reason").collect()
    assert len({(row["topic"], row["offset"]) for row in refused}) == len(refused), "a record is in quarantine twice"
    expected = Counter(reason for _, reason in (*SAMPLES, *STATES) if reason)
    assert Counter(row["reason"] for row in refused) == expected
    assert len(list((tmp_path / "traffic_by_minute").glob("day=*"))) == 1


def test_topics_set_up_as_the_page_says_refuse_what_swells_when_it_is_read(bootstrap: str) -> None:
    """A topic with default settings accepts fifty megabytes as some kilobytes of zstd; one of ours refuses them."""
    for config, refused in (({}, False), ({**_STAMPED, "compression.type": "uncompressed"}, True)):
        topic = f"bomb-{uuid.uuid4().hex[:12]}"
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, [[1]], config=config)
        source = Source(bootstrap=bootstrap, traffic=topic, states=topic)
        assert any("MSG_SIZE_TOO_LARGE" in one for one in _send(source, topic, (bytes(50_000_000),))) == refused
