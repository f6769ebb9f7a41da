"""Python consumers with our assignors read in their own rack, on real brokers, beside members of other languages."""

import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer

from plugins import aiokafka, kafka_python
from sandbox.admin import Admin
from sandbox.contract import RACKS, KafkaCluster
from sandbox.members.lines import MemberSettings
from tests.integration.members import start

_REPLICAS = [[1], [2], [3], [1], [2], [3]]
_SECONDS = 120.0


def _near(owned: dict[str, set[int]]) -> bool:
    """Whether every rack has exactly the partitions that stand there."""
    return all(
        numbers == {number for number, nodes in enumerate(_REPLICAS) if RACKS[nodes[0]] == rack}
        for rack, numbers in owned.items()
    )


def _numbers(consumer: Any) -> set[int]:
    return {partition.partition for partition in consumer.assignment()}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "range"])
def test_kafka_python(cluster: KafkaCluster, admin: Admin, topic: str, group: str, name: str) -> None:
    """Two kafka-python consumers and a Java one share a topic, each in its rack, whoever of them leads."""
    admin.create_topic(topic, _REPLICAS)
    racks = sorted(rack for rack in RACKS.values() if rack)
    java = start(
        "java",
        MemberSettings(
            bootstrap=cluster.bootstrap,
            group=group,
            topics=(topic,),
            client_id="java",
            assignors=(name,),
            rack=racks[0],
        ),
    )
    consumers = {
        rack: KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap.split(","),
            group_id=group,
            client_rack=rack,
            partition_assignment_strategy=[kafka_python.assignor(name, rack=rack)],
        )
        for rack in racks[1:]
    }
    try:
        until, owned = time.monotonic() + _SECONDS, {}
        while time.monotonic() < until:
            for consumer in consumers.values():
                consumer.poll(timeout_ms=100)
            owned = {rack: _numbers(consumer) for rack, consumer in consumers.items()}
            owned[racks[0]] = {number for _, number in java.owned}
            if _near(owned):
                break
        assert _near(owned), owned
        java.stop()  # whoever led, a kafka-python consumer does now
        while (time.monotonic() < until and sum(map(len, owned.values())) != len(_REPLICAS)) or racks[0] in owned:
            for consumer in consumers.values():
                consumer.poll(timeout_ms=100)
            owned = {rack: _numbers(consumer) for rack, consumer in consumers.items()}
        assert sorted(map(len, owned.values())) == [3, 3]
    finally:
        java.stop()
        for consumer in consumers.values():
            consumer.close()


@pytest.mark.parametrize("name", ["sticky", "range"])
def test_aiokafka(cluster: KafkaCluster, admin: Admin, topic: str, group: str, name: str) -> None:
    """Three aiokafka consumers share a topic, each in its rack."""
    admin.create_topic(topic, _REPLICAS)

    async def share() -> dict[str, set[int]]:
        consumers = {
            rack: AIOKafkaConsumer(  # type: ignore[no-untyped-call]  # aiokafka has few annotations
                topic,
                bootstrap_servers=cluster.bootstrap.split(","),
                group_id=group,
                client_rack=rack,
                partition_assignment_strategy=[aiokafka.assignor(name, rack=rack)],
            )
            for rack in RACKS.values()
            if rack
        }
        await asyncio.gather(*(consumer.start() for consumer in consumers.values()))  # type: ignore[no-untyped-call]  # see above
        try:
            until, owned = time.monotonic() + _SECONDS, {}
            while time.monotonic() < until:
                await asyncio.gather(*(consumer.getmany(timeout_ms=100) for consumer in consumers.values()))
                owned = {rack: _numbers(consumer) for rack, consumer in consumers.items()}
                if _near(owned):
                    break
            return owned
        finally:
            await asyncio.gather(*(consumer.stop() for consumer in consumers.values()))  # type: ignore[no-untyped-call]  # see above

    owned = asyncio.run(share())
    assert _near(owned), owned
