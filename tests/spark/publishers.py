"""Hostile publishers: the records that each sends to both topics, and the expected quarantine."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from samerack.pipeline.quarantine import BYTES_PER_SECOND
from samerack.pipeline.sums import FULL
from tests.records import MINUTE
from tests.spark import records
from tests.spark.stream_process import Source

HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
NOW: Final = int(time.time() * 1000)
AT: Final = NOW - HOUR - NOW % MINUTE
"""A past minute, to which every record here belongs unless it says otherwise."""
HOSTILE: Final = "hostile"
"""The group of those hostile records that are counted."""
_ODD: Final = "longer than 1000 characters, or with control characters"
_WRONG: Final = "missing, or of the wrong type"


class Sent(NamedTuple):
    """One record for Kafka; a timestamp of 0 is now."""

    value: bytes | None
    key: bytes | None = b"east/orders"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """A client with write access to both topics.

    Attributes:
        name: a description of its records.
        samples: its records for the topic of samples, sent before all others.
        states: its records for the topic of states.
        reasons: the reasons in the quarantine, with their counts.
        counts: number of samples of its own group that are counted, because they look like good ones.
        bytes: their sum, as in the table.
        rows: number of their rows in the table.
    """

    name: str
    samples: tuple[Sent, ...] = ()
    states: tuple[Sent, ...] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)
    counts: int = 0
    bytes: int = 0
    rows: int = 0


def sample(number: int | str, **changes: object) -> bytes:
    """A good sample of the current hour."""
    times = {"window_start": AT, "window_end": AT + MINUTE}
    return records.sample(0, **{"id": f"sample-{number}", **times, **changes})


def state(number: int | str, **changes: object) -> bytes:
    """A good state of the current hour."""
    return records.state(0, **{"id": f"state-{number}", "at": AT, **changes})


def _sent(*values: bytes | None) -> tuple[Sent, ...]:
    return tuple(map(Sent, values))


def _own(number: int | str, **changes: object) -> bytes:
    return sample(f"own-{number}", **{"group": HOSTILE, **changes})


def _odd_numbers() -> Publisher:
    wrong = (None, 0.5, "1", True, [1], 2**63, 1e400, "NaN", {"": 1})
    topic = json.loads(state(1))["topics"][0]
    return Publisher(
        name="numbers that are none",
        samples=_sent(
            *(sample(f"wrong-{number}", bytes=value) for number, value in enumerate(wrong)),
            sample("bare", bytes=7).replace(b'"bytes": 7', b'"bytes": NaN'),
            sample("long", bytes=7).replace(b'"bytes": 7', b'"bytes": ' + b"9" * 10_000),
            sample("negative", bytes=-1),
            sample("least", records=-(2**63)),
            sample("span", window_start=-(2**63), window_end=2**63 - 1),
        ),
        states=_sent(
            *(
                state(f"rate-{number}", topics=[{**topic, "bytes_per_second": [rate, 1.0]}])
                for number, rate in enumerate((float("nan"), float("inf"), -1.0, None))
            )
        ),
        reasons={
            f"bytes: {_WRONG}": 8,
            # JSON has neither NaN nor Infinity, and parsers refuse numbers of ten thousand digits
            "not JSON": 3,
            "bytes: negative": 1,
            "records: negative": 1,
            "window_start: negative": 1,
            "topics: a rate is none": 4,
        },
    )


def _long_and_odd_names() -> Publisher:
    return Publisher(
        name="names of a megabyte, and names that steer terminals and logs",
        samples=_sent(
            sample("topic", topic="t" * 900_000),
            sample("group", group="g" * 900_000),
            sample("line", group="orders\nbatch 7: 0 samples"),
            sample("escape", cluster="\x1b[2J\x1b]0;owned\x07"),
            sample("rack", client_rack="r" * 2000),
            sample("id", id="i" * 900_000),
            sample("field").replace(b'"group"', b'"' + b"f" * 100_000 + b'": 1, "group"'),
        ),
        states=_sent(state("racks", racks=["r"] * 100_000), state("name", assignor="\x00")),
        reasons={
            "topic: no name of a Kafka topic": 1,
            f"group: {_ODD}": 2,
            f"cluster: {_ODD}": 1,
            f"client_rack: {_ODD}": 1,
            f"id: {_ODD}": 1,
            "not JSON": 1,
            "racks: more than 1000": 1,
            f"assignor: {_ODD}": 1,
        },
    )


def _deep() -> Publisher:
    def nested(levels: int) -> bytes:
        return b'{"a":' * levels + b"1" + b"}" * levels

    return Publisher(
        name="deep JSON",
        samples=_sent(
            nested(100_000),
            b"[" * 500_000,
            _own(1).replace(b'"group"', b'"new": ' + nested(50_000) + b', "group"'),
            _own(2).replace(b'"group"', b'"new": ' + nested(900) + b', "group"'),
        ),
        states=_sent(b'{"members":' + b"[" * 400_000),
        reasons={"not JSON": 4},
        counts=1,
        bytes=1000,
        rows=1,
    )


PUBLISHERS: Final = (
    Publisher(
        name="a sum of one key that does not fit into 64 bits",
        samples=_sent(*(sample(f"large-{number}", bytes=2**50) for number in range(8192))),
        reasons={"bytes: absurdly many": 8192},
    ),
    Publisher(
        name="such a sum of samples that are all within the bounds",
        samples=_sent(
            *(_own(n, window_end=AT + HOUR, bytes=3600 * BYTES_PER_SECOND, records=1) for n in range(2700)),
        ),
        counts=2700,
        bytes=FULL,
        rows=1,
    ),
    Publisher(
        name="five thousand days since 1970",
        samples=_sent(*(_own(n, window_start=n * DAY, window_end=n * DAY + 1) for n in range(5000))),
        states=_sent(*(state(f"old-{n}", at=n * DAY) for n in range(100)), state("new", at=NOW + DAY)),
        reasons={
            "window_start: more than 30 days ago": 5000,
            "at: more than 30 days ago": 100,
            "at: in the future": 1,
        },
    ),
    Publisher(
        name="versions that nobody knows",
        samples=_sent(*(sample(f"v{version}", schema=version) for version in (99, 99, 2, 0, -1, 2**31))),
        states=_sent(state("v99", schema=99)),
        # the second of two equal bad records is one more, because it has another offset in Kafka
        reasons={
            "schema: unknown version 99": 3,
            "schema: unknown version 2": 1,
            "schema: unknown version 0": 1,
            "schema: unknown version -1": 1,
            f"schema: {_WRONG}": 1,
        },
    ),
    _deep(),
    _long_and_odd_names(),
    _odd_numbers(),
    Publisher(
        name="ten thousand groups under one key",
        samples=_sent(*(_own(n, topic=f"clicks-{n}") for n in range(10_000))),
        counts=10_000,
        bytes=10_000_000,
        rows=10_000,
    ),
    Publisher(
        name="ids that others are going to use, and one id for many records",
        samples=_sent(
            *(sample(number, group=HOSTILE, bytes=1) for number in range(1, 5)),
            *(_own("same", bytes=size) for size in (2, 3, 3)),
        ),
        states=_sent(*(state(number, group=HOSTILE) for number in (1, 2))),
        counts=6,
        bytes=9,
        rows=1,
    ),
    Publisher(
        name="tombstones, odd keys, headers and timestamps",
        samples=(
            Sent(None),
            Sent(None, key=None),
            Sent(b""),
            Sent(b"\x00" * 100, key=b"\xff\xfe"),
            Sent(_own(1), key=b"\xff\xfe\x00", headers=(("\u2028", b"\xff" * 1000), ("h", None)) * 100),
            Sent(_own(2), key=b"k" * 500_000),
            *(Sent(_own(f"at-{stamp}"), timestamp=stamp) for stamp in (1, -(2**62), 2**62)),
        ),
        states=(Sent(None),),
        reasons={"empty": 4, "not JSON": 1},
        counts=5,
        bytes=5000,
        rows=1,
    ),
)


def named(number: int, publisher: Publisher) -> Publisher:
    """The same publisher, whose own group and ids are those of no other number."""

    def own(sent: Sent) -> Sent:
        if sent.value is None:
            return sent
        value = sent.value.replace(f'"{HOSTILE}"'.encode(), f'"{HOSTILE}-{number}"'.encode())
        return sent._replace(value=value.replace(b'"own-', f'"own-{number}-'.encode()))

    return replace(publisher, samples=tuple(map(own, publisher.samples)), states=tuple(map(own, publisher.states)))


def publish(source: Source, publisher: Publisher) -> set[tuple[str, int]]:
    """Send all of its records, those of each topic in order; returns the topic and offset of each.

    Raises:
        AssertionError: The broker did not take one.
    """
    taken: set[tuple[str, int]] = set()
    refused: list[object] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)
        else:
            taken.add((str(message.topic()), message.offset() or 0))

    producer = Producer(
        {
            "bootstrap.servers": source.bootstrap,
            "log_level": "0",
            "linger.ms": "20",
            "compression.type": "zstd",
            "message.max.bytes": "100000000",
        }
    )
    for topic, sent in ((source.traffic, publisher.samples), (source.states, publisher.states)):
        for one in sent:
            producer.produce(
                topic,
                one.value,
                one.key,
                headers=list(one.headers),
                timestamp=one.timestamp,
                on_delivery=delivered,
            )
            producer.poll(0)
    assert producer.flush(60) == 0
    assert not refused, refused[0]
    return taken
