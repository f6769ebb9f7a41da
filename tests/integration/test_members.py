"""The members of the other integration tests behave like real clients."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from sandbox.admin import Admin
from sandbox.contract import KafkaCluster
from sandbox.history.checker import check
from sandbox.history.model import Bounds, History
from sandbox.members.ledger import owned_twice, read_twice, readings
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member
from tests.integration.members import CLIENTS, start

_PARTITIONS = 4
_TELL_COMMITS = {"java", "confluent", "kafka-python"}


@contextmanager
def _traffic(bootstrap: str, topic: str) -> Iterator[list[int]]:
    """Produces to all partitions until the block ends; the list then has the number of records."""
    produced: list[int] = []
    ended = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        count = 0
        while not ended.wait(0.002):
            producer.produce(topic, value=b"x" * 200, partition=count % _PARTITIONS)
            producer.poll(0)
            count += 1
        assert producer.flush(30) == 0
        produced.append(count)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield produced
    finally:
        ended.set()
        thread.join()


def _shared(first: Member, second: Member) -> bool:
    owned = {first.name: first.owned, second.name: second.owned}
    return all(len(had) == _PARTITIONS // 2 for had in owned.values()) and not owned_twice(owned)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_restart_in_good_order_reads_nothing_twice(
    cluster: KafkaCluster, admin: Admin, topic: str, group: str, client: str
) -> None:
    """A member that ends on SIGTERM commits its offsets: the group loses no record and reads none twice."""
    begun = time.monotonic_ns()
    admin.create_topic(topic, [[1, 2], [2, 3], [3, 1], [1, 3]])

    def settings(number: int) -> MemberSettings:
        return MemberSettings(
            bootstrap=cluster.bootstrap,
            group=group,
            topics=(topic,),
            client_id=f"{client}-{number}",
            assignors=("range",),
            rack="rack-a",
        )

    members: list[Member] = []

    def begin(number: int) -> Member:
        members.append(start(client, settings(number)))
        return members[-1]

    def total() -> int:
        return sum(reading.distinct for reading in readings(event for m in members for event in m.events).values())

    try:
        with _traffic(cluster.bootstrap, topic) as produced:
            first = begin(1)
            first.wait(lambda: len(first.owned) == _PARTITIONS and total() > 100, "it reads all partitions")
            second = begin(2)
            second.wait(lambda: _shared(first, second), "both have half of the partitions")
            first.stop()
            second.wait(lambda: len(second.owned) == _PARTITIONS, "the other has taken over")
            third = begin(1)
            third.wait(lambda: _shared(second, third), "both have half of the partitions again")
        third.wait(lambda: total() == produced[0], "everything is read")
    finally:
        for member in members:
            member.stop()
    events = [event for member in members for event in member.events]
    assert read_twice(events) == 0
    assert all(reading.missing == 0 and reading.first == 0 for reading in readings(events).values())
    assert [event.kind for event in first.events][-1] == "closed"
    assert all(begun < event.ns < time.monotonic_ns() for event in events)  # one clock for all processes
    assert all(event.generation > 0 for event in events if event.kind == "assigned")
    assert any(event.offsets for event in first.events) == (client in _TELL_COMMITS)
    history = History(members={f"{member.name}-{number}": member.events for number, member in enumerate(members)})
    assert check(history, Bounds(unowned=30.0, stop=30.0)) == []


@pytest.mark.parametrize("client", ["confluent", "java"])
def test_bytes_come_from_the_members_own_rack(
    cluster: KafkaCluster, admin: Admin, topic: str, group: str, client: str
) -> None:
    """A member with a rack reads from the replica there, and reports how many bytes each broker sent."""
    admin.create_topic(topic, [[1, 2]] * _PARTITIONS)  # every leader in rack-a, every follower in rack-b
    settings = MemberSettings(
        bootstrap=cluster.bootstrap, group=group, topics=(topic,), client_id="reader", rack="rack-b"
    )
    with _traffic(cluster.bootstrap, topic):
        member = start(client, settings)
        try:
            member.wait(lambda: member.received.get(2, 0) > 50_000, "broker 2 has sent 50 kB")
        finally:
            member.stop()
    # The leader answers the first fetch itself, before it names the replica in rack.
    assert member.received[2] > 2 * member.received.get(1, 0)
