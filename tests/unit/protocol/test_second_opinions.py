"""Independent codecs of the same messages: kio, generated from Kafka's schemas, and kafka-python."""

from __future__ import annotations

import io
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hypothesis import given
from kio.serial import entity_reader, entity_writer

from samerack.protocol.consumer import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from samerack.protocol.model import Assignment, Subscription, TopicPartitions, from_pairs, to_pairs
from samerack.protocol.sticky import decode_sticky, encode_sticky
from tests.unit.protocol.strategies import ASSIGNMENTS, INT32, SUBSCRIPTIONS, pairs

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that is deprecated in Python 3.11 and 3.12; its types are partly wrong
    warnings.simplefilter("ignore", DeprecationWarning)
    METADATA: Any = import_module("kafka.protocol.consumer.metadata")
    STICKY: Any = import_module("kafka.coordinator.assignors.sticky.user_data")

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kio.static.protocol import Entity


def kio_types(message: str, version: int) -> tuple[Any, Any]:
    """The classes of kio for a version of a message and for its runs of partitions (None if it has none)."""
    module = import_module(f"kio.schema.consumer_protocol_{message}.v{version}.data")
    return getattr(module, f"ConsumerProtocol{message.title()}"), getattr(module, "TopicPartition", None)


def kio_write(value: Entity, version: int) -> bytes:
    """The bytes that kio writes for a value, after the version, which kio does not write."""
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)
    return version.to_bytes(2, "big") + buffer.getvalue()


def runs(partitions: TopicPartitions) -> list[tuple[str, list[int]]]:
    """Runs as plain lists."""
    return [(topic, run.tolist()) for topic, run in zip(partitions.topics, partitions.numbers, strict=True)]


def their_runs(partitions: Iterable[Any]) -> list[tuple[str, list[int]]]:
    """Runs of either library as plain lists."""
    return [(str(run.topic), list(run.partitions)) for run in partitions]


@given(SUBSCRIPTIONS)
def test_kio_agrees_on_subscriptions(value: Subscription) -> None:
    """The codec kio reads the fields that were written, and writes the same bytes."""
    kind, _ = kio_types("subscription", value.version)
    data = encode_subscription(value)
    ours = decode_subscription(data)
    theirs, size = entity_reader(kind)(data, 2)
    assert 2 + size == len(data) - len(value.trailing)
    assert (theirs.topics, theirs.user_data) == (ours.topics, ours.user_data)
    assert their_runs(getattr(theirs, "owned_partitions", ())) == runs(ours.owned)
    assert getattr(theirs, "generation_id", -1) == ours.generation
    assert getattr(theirs, "rack_id", None) == ours.rack
    assert kio_write(theirs, value.version) + value.trailing == data


@given(ASSIGNMENTS)
def test_kio_agrees_on_assignments(value: Assignment) -> None:
    """The codec kio writes the same bytes for the partitions that are read here."""
    kind, run = kio_types("assignment", value.version)
    merged = decode_assignment(encode_assignment(value))
    theirs = kind(
        assigned_partitions=tuple(run(topic=topic, partitions=tuple(own)) for topic, own in runs(merged.partitions)),
        user_data=value.user_data,
    )
    assert kio_write(theirs, value.version) + value.trailing == encode_assignment(value)


@given(SUBSCRIPTIONS)
def test_kafka_python_agrees_on_subscriptions(value: Subscription) -> None:
    """kafka-python reads the fields that were written, and writes the same bytes."""
    data = encode_subscription(value)
    ours = decode_subscription(data)
    theirs = METADATA.ConsumerProtocolSubscription.decode(data)
    assert (theirs.version, tuple(theirs.topics), theirs.user_data) == (ours.version, ours.topics, ours.user_data)
    assert their_runs(theirs.owned_partitions or ()) == runs(ours.owned)
    assert theirs.encode() + value.trailing == data


@given(ASSIGNMENTS)
def test_kafka_python_agrees_on_assignments(value: Assignment) -> None:
    """kafka-python reads the partitions that were written, and writes the same bytes."""
    data = encode_assignment(value)
    theirs = METADATA.ConsumerProtocolAssignment.decode(data)
    assert [tuple(pair) for pair in theirs.partitions()] == to_pairs(decode_assignment(data).partitions)
    assert theirs.encode() + value.trailing == data


@given(pairs(), INT32)
def test_kafka_python_agrees_on_sticky_user_data(owned: list[tuple[str, int]], generation: int) -> None:
    """kafka-python's schema of sticky user data gives the same bytes after the version that it puts before them."""
    data = encode_sticky(from_pairs(owned), generation)
    theirs = STICKY.StickyAssignorUserData.decode(data, version=1, header=False)
    assert their_runs(theirs.previous_assignment) == runs(decode_sticky(data).owned)
    assert theirs.encode()[2:] == data
