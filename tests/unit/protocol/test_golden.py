"""Messages of consumers that Kafka 4.3's own classes wrote and read, one JSON line per question and answer."""

from __future__ import annotations

from typing import Any

import pytest

from samerack.protocol import consumer, sticky, values
from samerack.protocol.sticky import COOPERATIVE_STICKY
from tests.unit.golden import golden


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _partitions(pairs: list[tuple[str, int]]) -> values.TopicPartitions:
    return values.from_pairs([(topic, number) for topic, number in pairs])


def _pairs(partitions: values.TopicPartitions) -> list[list[Any]]:
    return [list(pair) for pair in values.to_pairs(partitions)]


@pytest.mark.parametrize(("asked", "answer"), golden("subscription"))
def test_subscriptions_are_written_as_kafka_writes_them(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The bytes equal Kafka's for the same values; the newest known version stands for newer ones."""
    subscription = values.Subscription(
        version=min(asked["version"], values.MAX_VERSION),
        topics=tuple(asked["topics"]),
        user_data=_bytes(asked["user_data"]),
        owned=_partitions(asked["owned"]),
        generation=asked["generation"],
        rack=asked["rack"],
    )
    assert consumer.encode_subscription(subscription).hex() == answer["hex"]


@pytest.mark.parametrize(("asked", "answer"), golden("decode-subscription"))
def test_subscriptions_are_read_as_kafka_reads_them(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The values equal those that Kafka read from the same bytes."""
    found = consumer.decode_subscription(bytes.fromhex(asked["hex"]))
    assert answer == {
        "version": found.version,
        "topics": list(found.topics),
        "user_data": _hex(found.user_data),
        "owned": _pairs(found.owned),
        "generation": found.generation,
        "rack": found.rack,
    }


@pytest.mark.parametrize(("asked", "answer"), golden("assignment"))
def test_assignments_are_written_as_kafka_writes_them(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The bytes equal Kafka's for the same values."""
    assignment = values.Assignment(
        version=min(asked["version"], values.MAX_VERSION),
        partitions=_partitions(asked["partitions"]),
        user_data=_bytes(asked["user_data"]),
    )
    assert consumer.encode_assignment(assignment).hex() == answer["hex"]


@pytest.mark.parametrize(("asked", "answer"), golden("decode-assignment"))
def test_assignments_are_read_as_kafka_reads_them(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The values equal those that Kafka read from the same bytes."""
    found = consumer.decode_assignment(bytes.fromhex(asked["hex"]))
    assert answer == {
        "version": found.version,
        "partitions": _pairs(found.partitions),
        "user_data": _hex(found.user_data),
    }


@pytest.mark.parametrize(("asked", "answer"), golden("sticky-userdata"))
def test_user_data_is_written_as_kafka_writes_it(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The bytes equal those of Kafka's sticky assignors."""
    version, generation = min(asked.get("version", 1), 1), asked["generation"]
    data: bytes | None
    if asked["assignor"] == COOPERATIVE_STICKY:
        data = sticky.encode_cooperative_sticky(generation)
    elif version and asked["owned"] is None:  # a member that never had an assignment sends none
        data = None
    else:
        data = sticky.encode_sticky(_partitions(asked["owned"] or []), generation, version)
    assert _hex(data) == answer["hex"]


@pytest.mark.parametrize(("asked", "answer"), golden("decode-sticky-userdata"))
def test_user_data_is_read_as_kafka_reads_it(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The values equal those that Kafka's sticky assignors read from the same bytes."""
    data = _bytes(asked["hex"])
    if asked["assignor"] == COOPERATIVE_STICKY:
        found = {"owned": [], "generation": sticky.decode_cooperative_sticky(data)}
    else:
        read = sticky.decode_sticky(data)
        found = {"owned": _pairs(read.owned), "generation": read.generation}
    assert found == answer
