"""Converts librdkafka's statistics, as an application posts them, to exact bytes per partition, after checks.

`brokers.*.rxbytes` are wire bytes (within 0.2 % of the kernel's counters); `topics.*.partitions.*.rxbytes` are
decompressed payload and are never read here. A broker's bytes are split over the partitions that it served by the
messages received from each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from samerack.traffic.collect import Partition

MAX_BYTES: Final = 1 << 20
"""The largest post that is read."""
MAX_PARTITIONS: Final = 10_000
MAX_BROKERS: Final = 10_000
"""The most that one post may name; librdkafka's statistics of so many are far larger than MAX_BYTES."""
_LONGEST_NAME: Final = 1_000
_UNASSIGNED: Final = -1


class StatisticsError(Exception):
    """A post is not a librdkafka consumer's statistics; the message says what is wrong and what is expected."""


class MeasuredElsewhereError(StatisticsError):
    """The agent that gets the statistics is not the one that measures the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a client counted since it started; for librdkafka and, by node, for Java's client.

    `client` is unique among the clients of a group; `age_seconds` and `served_by` (by partition) are None where it does
    not report them. `received` is wire bytes by broker id, `messages` those received of each partition.
    """

    client: str
    client_id: str
    age_seconds: float | None
    received: Mapping[int, int]
    served_by: Mapping[Partition, int] | None
    messages: Mapping[Partition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Exact wire bytes and records of one partition from one broker, since the previous counters."""

    partition: Partition
    broker: int
    wire_bytes: float
    records: int


def parse(body: bytes) -> Counters:
    """Parse the counters in one post.

    Raises:
        StatisticsError: It is too large, not JSON, or not what librdkafka writes for a consumer.
    """
    if len(body) > MAX_BYTES:
        raise StatisticsError(f"the body has {len(body)} bytes; at most {MAX_BYTES} are read")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise StatisticsError(f"the body is not JSON ({error}); post what stats_cb gives, unchanged") from None
    top = _mapping(data, "the body")
    if top.get("type") != "consumer":
        raise StatisticsError(f"type is {top.get('type')!r}; only a consumer's statistics have what it reads")
    received = _received(_mapping(top.get("brokers"), "brokers"))
    served_by: dict[Partition, int] = {}
    messages: dict[Partition, int] = {}
    for topic, content in _mapping(top.get("topics"), "topics").items():
        partitions = _mapping(_mapping(content, f"topics.{topic}").get("partitions"), f"topics.{topic}.partitions")
        for number, raw in partitions.items():
            where = f"topics.{topic}.partitions.{number}"
            fields = _mapping(raw, where)
            if number == str(_UNASSIGNED):  # librdkafka's own entry for messages without a partition
                continue
            partition = (str(topic), _natural(number, where))
            broker = _integer(fields.get("broker"), f"{where}.broker")
            if broker >= 0 and fields.get("fetch_state") == "active":
                served_by[partition] = broker
            messages[partition] = _natural(fields.get("rxmsgs"), f"{where}.rxmsgs")
            if len(messages) > MAX_PARTITIONS:
                raise StatisticsError(f"topics: more than {MAX_PARTITIONS} partitions")
    return Counters(
        client=_text(top, "name"),
        client_id=_text(top, "client_id"),
        age_seconds=_natural(top["age"], "age") / 1e6 if "age" in top else None,
        received=received,
        served_by=served_by,
        messages=messages,
    )


def _received(brokers: Mapping[str, Any]) -> dict[int, int]:
    received: dict[int, int] = {}
    if len(brokers) > MAX_BROKERS:
        raise StatisticsError(f"brokers: more than {MAX_BROKERS}")
    for name, raw in brokers.items():
        fields = _mapping(raw, f"brokers.{name}")
        node = _integer(fields.get("nodeid"), f"brokers.{name}.nodeid")
        got = _natural(fields.get("rxbytes"), f"brokers.{name}.rxbytes")
        if node >= 0:  # bootstrap connections and the coordinator's have no node: no records come over them
            received[node] = received.get(node, 0) + got
    return received


def reads(before: Counters | None, now: Counters, serving: Mapping[Partition, int]) -> list[Read]:
    """Return what was read since `before` (since the client started, where that is None), exactly per broker.

    A counter that went down belongs to a restarted client: it counts from 0. Bytes of a broker that serves no partition
    are not consumption (metadata, heartbeats) and are left out; of one that serves some, all count. `serving` has the
    broker of each of the member's partitions, for clients that do not report it.
    """
    by_broker: dict[int, list[Partition]] = {}
    for partition, broker in (serving if now.served_by is None else now.served_by).items():
        by_broker.setdefault(broker, []).append(partition)
    result = []
    for broker, total in now.received.items():
        got = _grown(before.received.get(broker, 0) if before is not None else 0, total)
        partitions = sorted(by_broker.get(broker, ()))
        if not partitions or got <= 0:
            continue
        counts = [
            _grown(before.messages.get(one, 0) if before is not None else 0, now.messages.get(one, 0))
            for one in partitions
        ]
        whole = sum(counts)
        for partition, count in zip(partitions, counts, strict=True):
            share = count / whole if whole else 1 / len(partitions)
            result.append(Read(partition=partition, broker=broker, wire_bytes=got * share, records=count))
    return result


def _grown(before: int, now: int) -> int:
    return now - before if now >= before else now


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise StatisticsError(f"{where} is {_kind(value)}; librdkafka writes an object there")
    return value


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise StatisticsError(f"{key} is {_kind(value)}; librdkafka writes a text there")
    if len(value) > _LONGEST_NAME:
        raise StatisticsError(f"{key} has more than {_LONGEST_NAME} characters")
    return value


def _integer(value: object, where: str) -> int:
    if isinstance(value, str) and value.lstrip("-").isascii() and value.lstrip("-").isdigit() and len(value) < 12:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise StatisticsError(f"{where} is {_kind(value)}; librdkafka writes a whole number there")
    return value


def _natural(value: object, where: str) -> int:
    number = _integer(value, where)
    if number < 0:
        raise StatisticsError(f"{where} is {number}; it cannot be negative")
    return number


def _kind(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
