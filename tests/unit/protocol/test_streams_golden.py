"""Infos of Kafka Streams that Kafka 4.3's own classes wrote and read, one JSON line per question and answer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from samerack.protocol.streams import decode_assignment_info, decode_subscription_info
from samerack.protocol.streams_values import NEVER, Pairs, StreamsTask
from tests.unit.golden import golden
from tests.unit.protocol.streams_writers import (
    AssignmentInfo,
    SubscriptionInfo,
    encode_assignment_info,
    encode_subscription_info,
)


def task(text: str) -> StreamsTask:
    """The task with this text form."""
    subtopology, partition = text.split("_")
    return StreamsTask(subtopology=int(subtopology), partition=int(partition))


def named(task: StreamsTask) -> str:
    """The text form of a task."""
    return f"{task.subtopology}_{task.partition}"


def pairs(listed: list[tuple[str, int]]) -> Pairs:
    """Partitions from JSON."""
    return tuple((topic, partition) for topic, partition in listed)


def hosts(listed: dict[str, Any]) -> tuple[tuple[tuple[str, int], Pairs], ...]:
    """Partitions by host from JSON."""
    split = [(host.rpartition(":"), partitions) for host, partitions in listed.items()]
    return tuple(((host[0], int(host[2])), pairs(partitions)) for host, partitions in split)


@pytest.mark.parametrize(("asked", "answer"), golden("streams-subscription-info"))
def test_subscription_infos_are_written_as_kafka_writes_them(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The bytes of an info equal Kafka's for the same values, including the order of tasks in its hash tables."""
    info = SubscriptionInfo(
        version=asked["version"],
        latest_supported=asked["latest_supported"],
        process_id=UUID(asked["process_id"]),
        user_endpoint=asked["user_endpoint"],
        task_offset_sums=tuple((task(name), offsets) for name, offsets in asked["task_offset_sums"].items()),
        unique_field=asked["unique_field"],
        error_code=asked["error_code"],
        client_tags=tuple(asked["client_tags"].items()),
    )
    assert encode_subscription_info(info).hex() == answer["hex"]


@pytest.mark.parametrize(("asked", "answer"), golden("decode-streams-subscription-info"))
def test_subscription_infos_are_read_as_kafka_reads_them(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The values of an info equal those that Kafka read from the same bytes."""
    info = decode_subscription_info(bytes.fromhex(asked["hex"]))
    assert answer == answer | {
        "version": info.version,
        "process_id": str(info.process_id),
        "user_endpoint": info.user_endpoint,
        "task_offset_sums": {named(task): offsets for task, offsets in info.task_offset_sums},
        "prev_tasks": [named(task) for task in sorted(info.active_tasks)],
        "standby_tasks": [named(task) for task in sorted(info.standby_tasks)],
        "client_tags": dict(info.client_tags),
    }


@pytest.mark.parametrize(("asked", "answer"), golden("streams-assignment-info"))
def test_assignment_infos_are_written_as_kafka_writes_them(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The bytes of an info equal Kafka's for the same values, including its numbering of topics."""
    info = AssignmentInfo(
        version=asked["version"],
        commonly_supported=asked["commonly_supported"],
        active=tuple(map(task, asked["active"])),
        standby=tuple((task(name), pairs(listed)) for name, listed in asked["standby"].items()),
        partitions_by_host=hosts(asked["partitions_by_host"]),
        standby_partitions_by_host=hosts(asked["standby_partitions_by_host"]),
        err_code=asked["err_code"],
        next_rebalance_ms=asked.get("next_rebalance_ms", NEVER),
    )
    assert encode_assignment_info(info).hex() == answer["hex"]


@pytest.mark.parametrize(("asked", "answer"), golden("decode-streams-assignment-info"))
def test_assignment_infos_are_read_as_kafka_reads_them(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """The values of an info equal those that Kafka read from the same bytes; sets have no order."""
    info = decode_assignment_info(bytes.fromhex(asked["hex"]))
    assert [named(task) for task in info.active] == answer["active"]
    assert {named(task): set(listed) for task, listed in info.standby} == {
        name: set(pairs(listed)) for name, listed in answer["standby"].items()
    }
    assert info.next_rebalance_ms == answer["next_rebalance_ms"]
