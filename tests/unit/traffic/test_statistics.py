"""librdkafka's statistics: wire bytes of brokers are split by messages, and invalid statistics are refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.statistics import MAX_BYTES, Counters, StatisticsError, parse, reads


def posted(**changes: Any) -> dict[str, Any]:
    """What librdkafka writes, as far as it is read; `rxbytes` of partitions must be ignored."""
    return {
        "name": "rdkafka#consumer-1",
        "client_id": "orders-a",
        "type": "consumer",
        "age": 30_000_000,
        "brokers": {
            "127.0.0.1:9092/1": {"nodeid": 1, "rxbytes": 1_000},
            "127.0.0.1:9093/2": {"nodeid": 2, "rxbytes": 500},
            "GroupCoordinator": {"nodeid": -1, "rxbytes": 77},
        },
        "topics": {
            "t": {
                "partitions": {
                    "0": {"broker": 1, "leader": 3, "fetch_state": "active", "rxmsgs": 30, "rxbytes": 9},
                    "1": {"broker": 1, "leader": 1, "fetch_state": "active", "rxmsgs": 10, "rxbytes": 9},
                    "2": {"broker": 3, "leader": 3, "fetch_state": "stopped", "rxmsgs": 5, "rxbytes": 9},
                    "-1": {"broker": -1, "fetch_state": "none", "rxmsgs": 0},
                }
            }
        },
        **changes,
    }


def body(**changes: Any) -> bytes:
    """The same statistics as a body."""
    return json.dumps(posted(**changes)).encode()


def test_counters_are_read() -> None:
    """Bytes are by broker, and the serving replica is `broker`, not `leader`."""
    assert parse(body()) == Counters(
        client="rdkafka#consumer-1",
        client_id="orders-a",
        age_seconds=30.0,
        received={1: 1_000, 2: 500},
        served_by={("t", 0): 1, ("t", 1): 1},
        messages={("t", 0): 30, ("t", 1): 10, ("t", 2): 5},
    )


def test_a_client_is_known_by_its_name_and_its_start() -> None:
    """Its clock and its age are read at once, so that their difference is the start, to the microsecond."""
    first, later = parse(body(ts=9_000_000_007)), parse(body(ts=9_005_000_019, age=35_000_012))
    assert first.client == later.client
    assert first.client not in (parse(body()).client, parse(body(ts=9_000_000_008)).client)
    with pytest.raises(StatisticsError, match="ts is a str"):
        parse(body(ts="now"))


def test_bytes_are_split_by_messages() -> None:
    """A broker's wire bytes are split over its partitions by messages; without partitions they do not count."""
    found = {read.partition: (read.broker, read.wire_bytes, read.records) for read in reads(None, parse(body()), {})}
    assert found == {("t", 0): (1, 750.0, 30), ("t", 1): (1, 250.0, 10)}


def test_only_growth_counts() -> None:
    """A post counts what is new since the last; without messages the broker's partitions get equal shares."""
    brokers = {"b": {"nodeid": 1, "rxbytes": 1_100}}
    found = reads(parse(body()), parse(body(brokers=brokers)), {})
    assert [(read.wire_bytes, read.records) for read in found] == [(50.0, 0), (50.0, 0)]


def test_a_client_that_began_anew_counts_from_zero() -> None:
    """Counters that went down belong to a restarted client."""
    found = reads(parse(body(brokers={"b": {"nodeid": 1, "rxbytes": 9_000}})), parse(body()), {})
    assert sum(read.wire_bytes for read in found) == 1_000


def test_clients_that_do_not_report_are_split_by_who_serves() -> None:
    """Java's counters name nodes only, and the probe gives the partitions that each node serves."""
    java = Counters(client="c", client_id="c", age_seconds=None, received={1: 100}, served_by=None, messages=None)
    found = reads(None, java, {("t", 4): 1, ("t", 5): 2})
    assert [(read.partition, read.wire_bytes, read.records) for read in found] == [(("t", 4), 100.0, None)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": "producer"}, "producer"),
        ({"name": ""}, "name"),
        ({"name": 7}, "name is a int"),
        ({"brokers": None}, "brokers is missing"),
        ({"brokers": {"x": {"nodeid": 1}}}, "rxbytes is missing"),
        ({"brokers": {"x": {"nodeid": 1, "rxbytes": -4}}}, "cannot be negative"),
        ({"brokers": {"x": {"nodeid": 1, "rxbytes": 2**70}}}, "whole number"),
        ({"brokers": {"x": {"nodeid": True, "rxbytes": 1}}}, "nodeid is a bool"),
        ({"topics": []}, "topics is a list"),
        ({"topics": {"t": {"partitions": {"x": {}}}}}, "topics.t.partitions.x"),
        ({"topics": {"t": {"partitions": {"0": {"broker": 1}}}}}, "rxmsgs is missing"),
        ({"age": "old"}, "age"),
    ],
)
def test_nonsense_is_refused_with_the_place(changes: dict[str, Any], reason: str) -> None:
    """The message names what is wrong."""
    with pytest.raises(StatisticsError, match=reason):
        parse(body(**changes))


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[1]", b"null", b"{", b"[" * 100_000, b" " * (MAX_BYTES + 1)])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    """Anything but a JSON object is refused, deep nesting and more than one mebibyte too."""
    with pytest.raises(StatisticsError):
        parse(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(["name", "client_id", "type", "ts", "age", "brokers", "topics"]), JSON)
def test_any_json_is_read_or_refused(key: str, value: Any) -> None:
    """Any value at a key is read or refused with a StatisticsError."""
    with suppress(StatisticsError):
        parse(body(**{key: value}))
