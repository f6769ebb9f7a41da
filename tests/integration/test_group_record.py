"""A group whose record in `__consumer_offsets` is nearly as large as brokers write: the agent ends no member.

Beyond `max.message.bytes` of that topic brokers answer SyncGroup with an unknown error, at which Java's consumers end
(KAFKA-3590). The limit is set by what the group writes without an agent.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from lab.sandbox.admin import wait_until
from lab.sandbox.cluster import Cluster
from lab.sandbox.contract import KafkaCluster
from tests.integration.guest import leave_all, place, wait_watching
from tests.integration.scenario import A, Scenario

pytestmark = [pytest.mark.own_cluster, pytest.mark.extended]

_OFFSETS: Final = "__consumer_offsets"
_PARTITIONS: Final = 600
_ROOM_ALONE: Final = 150
"""Enough for what brokers count beside key and value, about a hundred bytes, and too little for the agent's member."""
_ROOM_FOR_AGENT: Final = 1000
_GROUP_KEY: Final = 2
"""The version of a key that says that the record is a group's."""


@pytest.fixture(scope="module")
def one_log() -> Iterator[KafkaCluster]:
    """One broker with all groups in one partition."""
    with Cluster({1: A}, properties={"offsets.topic.num.partitions": "1"}) as cluster:
        yield cluster


@pytest.fixture
def cluster(one_log: KafkaCluster) -> Iterator[KafkaCluster]:
    """The broker with all groups in one partition, and its usual limit afterwards."""
    yield one_log
    _limit(one_log, None)


def _limit(cluster: KafkaCluster, size: int | None) -> None:
    """Set the limit of the topic's records, or the brokers' own again."""
    what = AlterConfigOpType.DELETE if size is None else AlterConfigOpType.SET
    entry = ConfigEntry("max.message.bytes", None if size is None else str(size), incremental_operation=what)
    resource = ConfigResource(ConfigResource.Type.TOPIC, _OFFSETS, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    client.incremental_alter_configs([resource])[resource].result(30)


def _largest_record(scenario: Scenario) -> int:
    """The size of the largest record that the group has written, key and value."""
    reader = Consumer({"bootstrap.servers": scenario.cluster.bootstrap, "group.id": "reads-records", "log_level": 0})
    partition = TopicPartition(_OFFSETS, 0, 0)
    _, end = reader.get_watermark_offsets(partition, timeout=30)
    reader.assign([partition])
    key = struct.pack(">hh", _GROUP_KEY, len(scenario.group)) + scenario.group.encode()
    largest = 0

    def read_to_end() -> bool:
        nonlocal largest
        for message in reader.consume(500, timeout=1.0):
            if message.error() is None and message.key() == key:
                largest = max(largest, len(key) + len(message.value() or b""))
        return bool(reader.position([partition])[0].offset >= end)

    wait_until(read_to_end, "all records of groups have been read")
    reader.close()
    return largest


def _deploy(scenario: Scenario) -> None:
    """Start three members of Java's `sticky`, and restart one of them: its subscription then has what it owned."""
    scenario.join_each("java", "java", "java", assignor="sticky", enable_auto_commit="false")
    scenario.wait_settled()
    scenario.redeploy(scenario.participants[0])
    scenario.wait_settled()


@pytest.mark.parametrize(
    ("room", "leads"), [pytest.param(_ROOM_FOR_AGENT, True, id="led"), pytest.param(_ROOM_ALONE, False, id="not-led")]
)
def test_a_group_whose_record_just_fits_loses_no_member(scenario: Scenario, room: int, *, leads: bool) -> None:
    """It is led where there is room for the agent's own member, and leads itself where there is none."""
    place(scenario, _PARTITIONS)
    _deploy(scenario)
    size = _largest_record(scenario)
    leave_all(scenario)
    assert size > 2 * 4 * _PARTITIONS
    _limit(scenario.cluster, size + room)
    agent = scenario.agent()
    wait_watching(agent)
    _deploy(scenario)
    if leads:
        agent.wait_role("leading")
        assert not agent.events("backs-off")
    else:
        agent.wait(lambda: bool(agent.events("backs-off")), "the agent has left the group")
        assert agent.events("backs-off")[0]["cause"] == "record-too-large"
    scenario.wait_settled()
    scenario.check_owned_once()
