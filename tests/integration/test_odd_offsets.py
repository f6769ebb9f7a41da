"""What is counted when offsets vanish, jump, go back and forth, or are written by tools, on real brokers.

Each test knows how many records its consumers have read. tests/unit/traffic/histories.py has the same at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition

from lab.sandbox.admin import wait_for, wait_until
from lab.sandbox.contract import KafkaCluster
from lab.sandbox.feeder import Feeder
from lab.sandbox.group_client import GroupClient
from samerack.traffic.snapshot import TrafficSnapshot, Uncounted
from tests.integration.poller import Poller, named
from tests.integration.test_traffic import member

_OLD_RECORDS = 50_000
"""Records that nobody reads: were they counted, the figures would be far too high."""


@dataclass(slots=True, kw_only=True)
class Case:
    """The first partition of a topic, and what consumers of the group read of it."""

    bootstrap: str
    topic: str
    group: str
    poller: Poller
    read: int = 0

    def write(self, count: int) -> int:
        """Append so many records."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for _ in range(count):
            producer.produce(self.topic, b"record", partition=0, on_delivery=lambda _error, _message: None)
            producer.poll(0)
        assert producer.flush(60) == 0
        return count

    @contextmanager
    def consumer(self, *, assigned: int | None = None, reset: str = "earliest") -> Iterator[Consumer]:
        """A consumer of the group; `assigned` is the offset of one that takes the partition by itself."""
        made = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": reset,
                "log_level": 2,
            }
        )
        if assigned is None:
            made.subscribe([self.topic])
        else:
            made.assign([TopicPartition(self.topic, 0, assigned)])
        try:
            yield made
        finally:
            made.close()

    def consume(self, consumer: Consumer, count: int) -> None:
        """Read so many records, commit, and poll."""
        got: list[Message] = []

        def enough() -> bool:
            got.extend(one for one in consumer.consume(count - len(got), 0.5) if one.error() is None)
            return len(got) == count

        wait_until(enough, f"{count} records are read", pause=0.0)
        self.read += count
        consumer.commit(asynchronous=False)
        self.poller.watch.poll()

    def counted(self, why: Uncounted) -> tuple[int, int]:
        """The records that count so far, and those that do not for a reason."""
        seen = self.poller.watch.poll()
        return self.poller.records(self.group), named(seen, self.group).not_counted.get(why, 0)


@pytest.fixture
def case(cluster: KafkaCluster, placed: str, group: str, poller: Poller) -> Case:
    """A topic with many records that nobody has read."""
    made = Case(bootstrap=cluster.bootstrap, topic=placed, group=group, poller=poller)
    made.write(_OLD_RECORDS)
    return made


def test_a_commit_that_vanishes_ends_what_is_known(case: Case) -> None:
    """Its offset is deleted, as when it expires; the next reader begins at the end, and read nothing before."""
    with case.consumer() as reader:
        case.consume(reader, 10)
    with closing(KafkaAdminClient(bootstrap_servers=case.bootstrap)) as client:
        client.delete_group_offsets(case.group, [KafkaPythonPartition(case.topic, 0)])
    case.poller.watch.poll()
    with case.consumer(reset="latest") as reader:

        def reads() -> bool:
            case.write(1)
            case.read += len(reader.consume(1, 0.5))
            return case.read > 10

        wait_until(reads, "it reads from the end on")
        case.consume(reader, case.write(10))
        case.consume(reader, case.write(10))
        records, unknown = case.counted(Uncounted.BEGIN_UNKNOWN)
    assert 10 <= records <= case.read
    assert unknown >= _OLD_RECORDS


def test_two_applications_with_one_group_id_count_once(case: Case) -> None:
    """Blue and green take the partition by themselves: offsets go back and forth by tens of thousands."""
    with case.consumer(assigned=0) as blue, case.consumer(assigned=_OLD_RECORDS - 10_000) as green:
        for _ in range(8):
            case.write(100)
            case.consume(green, 100)
            case.write(100)
            case.consume(blue, 100)
        records, several = case.counted(Uncounted.SEVERAL_POSITIONS)
    assert 0 < records <= case.read
    assert several > 0


def test_offsets_that_a_tool_writes_are_not_read(case: Case) -> None:
    """MirrorMaker 2 and others copy offsets into groups that have no members."""
    client = GroupClient(case.bootstrap, case.group)

    def copy(offset: int) -> None:
        wait_for(lambda: client.set_offsets({(case.topic, 0): offset}), "the offset is copied")

    copy(5_000)
    case.poller.until(lambda seen: bool(seen.groups))
    for offset in range(10_000, _OLD_RECORDS, 5_000):
        copy(offset)
        case.poller.watch.poll()
    assert case.counted(Uncounted.NO_READER) == (0, 40_000)


def test_a_commit_above_the_end_counts_to_the_end(case: Case) -> None:
    """Of the last records those count that were there; the next commits begin nowhere known."""
    beyond = 9_000_000
    with case.consumer(assigned=_OLD_RECORDS) as reader:
        for _ in range(3):
            case.consume(reader, case.write(50))
        reader.commit(offsets=[TopicPartition(case.topic, 0, beyond)], asynchronous=False)
        records, above = case.counted(Uncounted.BEYOND_END)
    assert 50 <= records <= case.read
    assert above == beyond - _OLD_RECORDS - 150


def test_a_seek_to_the_end_skips_and_does_not_read(case: Case) -> None:
    """The partition has its owner all the time, which commits with leader epochs."""
    with case.consumer() as reader:
        for _ in range(3):
            case.write(50)
            case.consume(reader, 50)
        reader.seek(TopicPartition(case.topic, 0, _OLD_RECORDS + 150))
        for _ in range(3):
            case.consume(reader, case.write(50))
        records, moved = case.counted(Uncounted.MOVED)
    assert 150 <= records <= case.read
    assert moved > _OLD_RECORDS - 200


@pytest.mark.moves_brokers
def test_a_group_that_no_broker_lists_goes_on_from_its_commits(
    cluster: KafkaCluster, placed: str, group: str, poller: Poller
) -> None:
    """While its coordinator is away nobody lists it, and what its member reads meanwhile counts afterwards."""
    feeds = {placed: 6}
    with member(cluster, group, placed, "rack-a", **{"auto.commit.interval.ms": "500"}) as reader:
        with Feeder(cluster.bootstrap, feeds):
            poller.until(lambda _: poller.records(group) > 0)
        begun = poller.at_rest(reader, group)
        read = sum(reader.last_read((placed, number)) for number in range(6))
        coordinator = GroupClient(cluster.bootstrap, group).describe(timeout=10.0).coordinator.id

        def is_listed(seen: TrafficSnapshot) -> bool:
            return all(f"broker {coordinator}" not in gap.where for gap in seen.gaps)

        with Feeder(cluster.bootstrap, feeds):
            cluster.stop_broker(coordinator, kill=True)
            for _ in range(5):
                poller.watch.poll()
            cluster.start_broker(coordinator)
            poller.until(is_listed)
        ended = poller.at_rest(reader, group)
        everything = sum(reader.last_read((placed, number)) for number in range(6)) - read
    assert 0.98 * everything <= ended.records - begun.records <= everything
