"""Python consumers with our assignors read in their own rack, on real brokers, with members of other languages."""

import asyncio
import threading
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.contract import RACKS, KafkaCluster
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Member
from samerack.plugins import aiokafka, kafka_python

_REPLICAS = [[1], [2], [3], [1], [2], [3]]
_SECONDS = 120.0


def _near(owned: dict[str, set[int]]) -> bool:
    """Whether each rack's member owns exactly the partitions of that rack."""
    return all(
        numbers == {number for number, nodes in enumerate(_REPLICAS) if RACKS[nodes[0]] == rack}
        for rack, numbers in owned.items()
    )


def _numbers(consumer: Any) -> set[int]:
    return {partition.partition for partition in consumer.assignment()}


class Polled:
    """A kafka-python consumer with its own polling thread, like an application.

    Polls are long: kafka-python 3 joins again when a join ends between two calls of `poll`; several consumers that take
    turns in one thread with short polls may then rebalance for minutes.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="polled")
        self._thread.start()
        self.owned: set[int] = set()

    def _poll(self) -> None:
        while not self._stopped.is_set():
            self._consumer.poll(timeout_ms=1000)
            self.owned = _numbers(self._consumer)
        self._consumer.close()

    def stop(self) -> None:
        """Leave the group."""
        self._stopped.set()
        self._thread.join()


@pytest.mark.parametrize(
    "name",
    [
        "sticky",
        pytest.param(
            "cooperative-sticky",
            marks=pytest.mark.promise("The assignors of samerack work inside kafka-python's consumers, beside Java's."),
        ),
        "range",
    ],
)
def test_kafka_python(cluster: KafkaCluster, admin: Admin, topic: str, group: str, name: str) -> None:
    """Two kafka-python consumers and a Java one share a topic, each in its rack, whichever of them leads."""
    admin.create_topic(topic, _REPLICAS)
    racks = sorted(rack for rack in RACKS.values() if rack)
    java = Member.on(
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
        rack: Polled(
            KafkaConsumer(
                topic,
                bootstrap_servers=cluster.bootstrap.split(","),
                group_id=group,
                client_rack=rack,
                partition_assignment_strategy=[kafka_python.assignor(name, rack=rack)],
            )
        )
        for rack in racks[1:]
    }

    def owned() -> dict[str, set[int]]:
        return {rack: consumer.owned for rack, consumer in consumers.items()}

    try:
        wait_until(
            lambda: _near({racks[0]: {number for _, number in java.owned}, **owned()}),
            "everybody reads near",
            timeout=_SECONDS,
        )
        java.stop()  # a kafka-python consumer leads now
        wait_until(
            lambda: sorted(map(len, owned().values())) == [3, 3], "the two that stay share evenly", timeout=_SECONDS
        )
    finally:
        java.stop()
        for consumer in consumers.values():
            consumer.stop()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            "sticky", marks=pytest.mark.promise("The assignors of samerack work inside aiokafka's consumers.")
        ),
        "range",
    ],
)
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
