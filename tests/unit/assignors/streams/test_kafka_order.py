"""Kafka's iteration orders: hash sets, a priority queue, and cycle cancelling against an independent optimum."""

from __future__ import annotations

from uuid import UUID

from samerack.assignors.streams.application import ProcessId, TaskId, TaskInfo, TaskTopicPartition
from samerack.assignors.streams.java_sets import (
    in_java_order,
    in_queue_order,
    info_hash,
    process_hash,
    string_hash,
    table_size,
)


def test_strings_hash_over_utf_16_units() -> None:
    """`"hello".hashCode()` and that of a character outside the basic plane are Java's."""
    assert string_hash("hello") == 99162322
    assert string_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


def test_processes_hash_as_uuids() -> None:
    """`UUID.hashCode` is the exclusive or of its four 32-bit parts."""
    assert process_hash(ProcessId(uuid=UUID(int=1 << 96 | 2 << 64 | 4 << 32 | 8))) == 15


def test_a_described_task_hashes_as_a_record() -> None:
    """The hash of a record combines the hashes of its fields in order, with the factor 31."""
    part = TaskTopicPartition(topic="t", partition=1, racks=frozenset(["r"]))
    info = TaskInfo(id=TaskId(subtopology=0, partition=1), is_stateful=True, topic_partitions=(part,))
    name = 31 * (31 + 1) + ord("t")
    partition = ((name * 31 + 1231) * 31 + 1237) * 31 + ord("r")
    task = ((31 + 0) * 31 + 1) * 31
    assert info_hash(info) == (((task * 31 + 1231) * 31) * 31 + partition) & 0xFFFFFFFF


def test_a_set_made_at_once_has_its_table_from_the_start() -> None:
    """Twelve numbers use 16 buckets if inserted one by one, and 32 if copied from a collection."""
    assert in_java_order([*range(11), 17], int) == [0, 1, 17, *range(2, 11)]
    assert (table_size(12), table_size(12, at_once=True)) == (16, 32)


def test_equals_leave_a_queue_as_in_java() -> None:
    """Of four equal values in a PriorityQueue the first leaves first, then the last, then the others backwards."""
    assert in_queue_order(list("abcd"), lambda _: 0) == list("adcb")
