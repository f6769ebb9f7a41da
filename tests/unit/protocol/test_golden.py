"""Bytes that Kafka 4.3's own classes wrote and read, one JSON line per question and answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from samerack.protocol.consumer import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from samerack.protocol.model import Assignment, Subscription, from_pairs, to_pairs
from samerack.protocol.sticky import decode_cooperative_sticky, decode_sticky, encode_cooperative_sticky, encode_sticky

GOLDEN = Path(__file__).parents[2] / "data" / "golden"


def golden(name: str) -> list[Any]:
    """The lines of one kind, as (question, answer) parameters."""
    lines = (GOLDEN / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [pytest.param(line["in"], line["out"], id=str(number)) for number, line in enumerate(map(json.loads, lines))]


def unhex(text: str | None) -> bytes | None:
    """The bytes of a hexadecimal value, or None for null."""
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize(("asked", "answer"), golden("subscription"))
def test_subscription_is_written_as_kafka_writes_it(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The bytes of a subscription equal those of Kafka's serializer for the same values."""
    subscription = Subscription(
        version=asked["version"],
        topics=tuple(asked["topics"]),
        user_data=unhex(asked["user_data"]),
        owned=from_pairs(asked["owned"]),
        generation=asked["generation"],
        rack=asked["rack"],
    )
    assert encode_subscription(subscription).hex() == answer["hex"]


@pytest.mark.parametrize(("asked", "answer"), golden("decode-subscription"))
def test_subscription_is_read_as_kafka_reads_it(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The values of a subscription equal those that Kafka's deserializer read from the same bytes."""
    value = decode_subscription(bytes.fromhex(asked["hex"]))
    assert value.trailing == b""
    assert {
        "version": value.version,
        "topics": list(value.topics),
        "user_data": value.user_data,
        "owned": [list(pair) for pair in to_pairs(value.owned)],
        "generation": value.generation,
        "rack": value.rack,
    } == {**answer, "user_data": unhex(answer["user_data"])}


@pytest.mark.parametrize(("asked", "answer"), golden("assignment"))
def test_assignment_is_written_as_kafka_writes_it(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The bytes of an assignment equal those of Kafka's serializer for the same values."""
    partitions = from_pairs(asked["partitions"])
    value = Assignment(version=asked["version"], partitions=partitions, user_data=unhex(asked["user_data"]))
    assert encode_assignment(value).hex() == answer["hex"]


@pytest.mark.parametrize(("asked", "answer"), golden("decode-assignment"))
def test_assignment_is_read_as_kafka_reads_it(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The values of an assignment equal those that Kafka's deserializer read from the same bytes."""
    value = decode_assignment(bytes.fromhex(asked["hex"]))
    assert value.trailing == b""
    assert value.version == answer["version"]
    assert [list(pair) for pair in to_pairs(value.partitions)] == answer["partitions"]
    assert value.user_data == unhex(answer["user_data"])


@pytest.mark.parametrize(("asked", "answer"), golden("sticky-userdata"))
def test_sticky_user_data_is_written_as_kafka_writes_it(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """User data of both sticky assignors has Kafka's bytes, including its HashMap order of topics."""
    if asked["assignor"] == "cooperative-sticky":
        written = encode_cooperative_sticky(asked["generation"])
    else:
        written = encode_sticky(from_pairs(asked["owned"]), asked["generation"], asked["version"])
    assert written.hex() == answer["hex"]


@pytest.mark.parametrize(("asked", "answer"), golden("decode-sticky-userdata"))
def test_sticky_user_data_is_read_as_kafka_reads_it(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """User data of both sticky assignors gives the partitions and the generation that Kafka read."""
    data = bytes.fromhex(asked["hex"])
    if asked["assignor"] == "cooperative-sticky":
        assert decode_cooperative_sticky(data) == answer["generation"]
    else:
        value = decode_sticky(data)
        assert [list(pair) for pair in to_pairs(value.owned)] == answer["owned"]
        assert value.generation == answer["generation"]
