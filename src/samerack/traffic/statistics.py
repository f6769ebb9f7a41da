"""Converts what clients report of themselves to exact bytes per partition, after checks.

Of librdkafka's statistics, as an application posts them, `brokers.*.rxbytes` are wire bytes (within 0.2 % of the
kernel's counters); `topics.*.partitions.*.rxbytes` are decompressed payload and are never read here. A broker's bytes
are split over the partitions that it served by the messages received from each.

Java's clients show theirs at a metrics endpoint (a JMX exporter, Micrometer and such). `consumer-node-metrics
incoming-byte-total{node-id}` are wire bytes; the node `node-2147...` is the coordinator's connection.
`bytes-consumed-total` is decompressed and never read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from samerack.common.fetching import NoAnswerError, ask
from samerack.settings.measuring import ClientEndpoint
from samerack.traffic.collect import Partition

MAX_BYTES: Final = 1 << 20
"""The largest post that is read."""
MAX_PARTITIONS: Final = 10_000
MAX_BROKERS: Final = 10_000
"""The most that one post may name; librdkafka's statistics of this number are far larger than MAX_BYTES."""
_LONGEST_NAME: Final = 1_000
_UNASSIGNED: Final = -1


class StatisticsError(Exception):
    """A client does not report a consumer's statistics; the message says what is wrong and what is expected."""


class MeasuredElsewhereError(StatisticsError):
    """The agent that gets the statistics is not the one that measures the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a client counted since it started; for librdkafka and, by node, for Java's client.

    `client` distinguishes the clients of a group; `age_seconds`, `served_by` (by partition) and `messages` are None
    where it does not report them. `received` is wire bytes by broker id, `messages` those received of each partition.
    """

    client: str
    client_id: str
    age_seconds: float | None
    received: Mapping[int, int]
    served_by: Mapping[Partition, int] | None
    messages: Mapping[Partition, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Exact wire bytes and records of one partition from one broker, since the previous counters.

    `records` is None where the client does not count them.
    """

    partition: Partition
    broker: int
    wire_bytes: float
    records: int | None


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
        client=_instance(top),
        client_id=_text(top, "client_id"),
        age_seconds=_natural(top["age"], "age") / 1e6 if "age" in top else None,
        received=received,
        served_by=served_by,
        messages=messages,
    )


def _instance(top: Mapping[str, Any]) -> str:
    """Return the client's name, and when it started by its own clock, in microseconds.

    The name alone is the `client.id` and a number that begins at 1 in each process. `ts` and `age` come from one
    reading of the clock, so that their difference never varies.
    """
    name = _text(top, "name")
    if "ts" not in top or "age" not in top:
        return name
    return f"{name} of {_natural(top['ts'], 'ts') - _natural(top['age'], 'age')}"


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
        earlier, messages = (before.messages if before is not None else None) or {}, now.messages or {}
        counts = [_grown(earlier.get(one, 0), messages.get(one, 0)) for one in partitions]
        whole = sum(counts)
        for partition, count in zip(partitions, counts, strict=True):
            share = count / whole if whole else 1 / len(partitions)
            records = count if now.messages is not None else None
            result.append(Read(partition=partition, broker=broker, wire_bytes=got * share, records=records))
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


_MAX_PAGE_BYTES: Final = 8 << 20
_PAGE_SECONDS: Final = 2.0
_REDIRECTS: Final = 3
"""The status divided by 100."""
_NAME: Final = re.compile(r"(?i)incoming[_.-]?byte([_.-]?total){0,2}$")
"""Micrometer and some versions of the JMX exporter keep `_total`, others drop it or add it twice."""
_NODE: Final = re.compile(r"^(?:node[-_.]?)?(-?\d+)$")
_COORDINATORS_FROM: Final = 2**30
"""Java numbers a coordinator's connection 2^31 - 1 - id."""


def scrape(url: str) -> str:
    """Return the text at an http or https address of a client nearby: requested without any proxy or redirect.

    Raises:
        StatisticsError: It does not answer, or with another status than 200, or with more than 8 MiB.
    """
    if not url.startswith(("http://", "https://")):
        raise StatisticsError(f"{url}: only http and https addresses are read")
    address = urlsplit(url)
    path = f"{address.path or '/'}?{address.query}" if address.query else address.path or "/"
    try:
        answer = ask(f"{address.scheme}://{address.netloc}", path, seconds=_PAGE_SECONDS, max_bytes=_MAX_PAGE_BYTES)
    except NoAnswerError as error:
        raise StatisticsError(str(error)) from None
    if answer.status != HTTPStatus.OK:
        what = "a redirect, which is not followed" if answer.status // 100 == _REDIRECTS else "no page of metrics"
        raise StatisticsError(f"{url}: answers {answer.status}: {what}; give the address of the page itself")
    return answer.body.decode("utf-8", "replace")


def received_by_client(text: str) -> dict[str, dict[int, int]]:
    """Return wire bytes by client id and broker from Prometheus' text format, however the exporter spells the name.

    Raises:
        StatisticsError: It is not that format, or has no such metric.
    """
    found: dict[str, dict[int, int]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not _NAME.search(sample.name):
                    continue
                labels = {key.replace("-", "_").replace(".", "_"): value for key, value in sample.labels.items()}
                node = _NODE.match(labels.get("node_id", ""))
                client = labels.get("client_id", "")
                if node is None or not client or not 0 <= int(node[1]) < _COORDINATORS_FROM:
                    continue
                brokers = found.setdefault(client, {})
                brokers[int(node[1])] = brokers.get(int(node[1]), 0) + int(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise StatisticsError(f"not the text format of Prometheus: {error}") from None
    if not found:
        raise StatisticsError(
            "no incoming-byte-total with client_id and node_id; let consumer-node-metrics be exported"
        )
    return found


def pick(clients: Iterable[str], client_id: str) -> str | None:
    """Return the client of a page that belongs to a configured client id; the only one where none is configured."""
    names = sorted(clients)
    if client_id:
        return client_id if client_id in names else None
    return names[0] if len(names) == 1 else None


def counters_at(endpoint: ClientEndpoint) -> Counters:
    """Return what the metrics endpoint of a Java client shows: bytes by node only.

    Raises:
        StatisticsError: It does not answer, or does not show this client.
    """
    clients = received_by_client(scrape(endpoint.url))
    client = pick(clients, endpoint.client_id)
    if client is None:
        known = ", ".join(sorted(clients))
        raise StatisticsError(f"{endpoint.url}: shows clients {known}; set client_id to one of them")
    return Counters(
        client=client, client_id=client, age_seconds=None, received=clients[client], served_by=None, messages=None
    )
