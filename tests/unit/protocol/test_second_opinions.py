"""An independent codec of the same messages: kio, which is generated from Kafka's schemas."""

from __future__ import annotations

import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hypothesis import given
from kio.serial import entity_reader, entity_writer

from samerack.protocol.consumer import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from samerack.protocol.model import Assignment, Subscription, TopicPartitions
from tests.unit.protocol.strategies import ASSIGNMENTS, SUBSCRIPTIONS

if TYPE_CHECKING:
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


@given(SUBSCRIPTIONS)
def test_kio_agrees_on_subscriptions(value: Subscription) -> None:
    """The codec kio reads the fields that were written, and writes the same bytes."""
    kind, _ = kio_types("subscription", value.version)
    data = encode_subscription(value)
    ours = decode_subscription(data)
    theirs, size = entity_reader(kind)(data, 2)
    assert 2 + size == len(data) - len(value.trailing)
    assert (theirs.topics, theirs.user_data) == (ours.topics, ours.user_data)
    owned = getattr(theirs, "owned_partitions", ())
    assert [(str(run.topic), list(run.partitions)) for run in owned] == runs(ours.owned)
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
