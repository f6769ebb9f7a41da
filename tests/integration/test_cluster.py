"""Tests of the cluster for the other integration tests: racks, moved replicas, and brokers that stop and start."""

import time

import pytest
from confluent_kafka import Consumer, Producer

from sandbox.admin import Admin
from sandbox.contract import RACKS, KafkaCluster
from sandbox.errors import SandboxError


def _produce(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, value=str(number).encode(), partition=number % partitions)
    assert producer.flush(30) == 0


def _consume(bootstrap: str, topic: str, group: str, count: int) -> set[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    seen: set[int] = set()
    deadline = time.monotonic() + 60
    try:
        while len(seen) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                seen.add(int(message.value() or b"-1"))
    finally:
        consumer.close()
    return seen


def test_brokers_tell_their_racks(cluster: KafkaCluster, admin: Admin) -> None:
    """Each broker is listed with the rack that it was started in."""
    assert admin.racks() == dict(RACKS)
    assert all(broker.running for broker in cluster.brokers.values())


def test_records_come_through(cluster: KafkaCluster, admin: Admin, topic: str, group: str) -> None:
    """A group reads all records of a producer."""
    admin.create_topic(topic, [[1, 2], [2, 3], [3, 1]])
    _produce(cluster.bootstrap, topic, 3, 300)
    assert _consume(cluster.bootstrap, topic, group, 300) == set(range(300))


def test_replicas_move_where_they_are_sent(admin: Admin, topic: str) -> None:
    """A move changes replicas and leader, and no other partition."""
    admin.create_topic(topic, [[1, 2], [2, 3]])
    admin.move_replicas({(topic, 0): [3, 1]})
    placed = admin.replicas([topic])
    assert placed[topic, 0].replicas == (3, 1)
    assert placed[topic, 0].leader == 3
    assert placed[topic, 1].replicas == (2, 3)


def test_partitions_are_added_where_they_are_sent(admin: Admin, topic: str) -> None:
    """New partitions are on the given brokers."""
    admin.create_topic(topic, [[1, 2]])
    admin.add_partitions(topic, [[3, 2], [2, 1]])
    assert [placed.replicas for _, placed in sorted(admin.replicas([topic]).items())] == [(1, 2), (3, 2), (2, 1)]


@pytest.mark.moves_brokers
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_broker_comes_back(cluster: KafkaCluster, admin: Admin, topic: str, group: str, *, kill: bool) -> None:
    """A broker that stopped starts again at the same address, in the same rack, with its records."""
    admin.create_topic(topic, [[2], [2]])
    _produce(cluster.bootstrap, topic, 2, 100)
    before = cluster.brokers[2]
    cluster.stop_broker(2, kill=kill)
    assert not cluster.brokers[2].running
    cluster.start_broker(2)
    assert cluster.brokers[2] == before
    assert _consume(cluster.bootstrap, topic, group, 100) == set(range(100))


@pytest.mark.moves_brokers
def test_a_broker_changes_its_rack(cluster: KafkaCluster, admin: Admin) -> None:
    """A broker that is restarted in another rack, or in none, is listed with it."""
    cluster.restart_broker(3, rack="rack-a")
    assert admin.racks() == {1: "rack-a", 2: "rack-b", 3: "rack-a"}
    cluster.restart_broker(3, rack=None)
    assert admin.racks() == {1: "rack-a", 2: "rack-b", 3: None}


@pytest.mark.moves_brokers
def test_a_running_broker_is_not_started_again(cluster: KafkaCluster) -> None:
    """To start a running broker, or to stop a stopped one, is an error."""
    with pytest.raises(SandboxError, match="running"):
        cluster.start_broker(1)
    cluster.stop_broker(1)
    with pytest.raises(SandboxError, match="not running"):
        cluster.stop_broker(1)
