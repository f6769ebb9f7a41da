"""Thousands of real groups for `lab.benchmarks.footprint`, each with a member, an assignment and committed offsets.

They are made by raw requests: one machine cannot run two thousand consumers and the brokers.
"""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.protocol.consumer.group import JoinGroupRequest, OffsetCommitRequest, SyncGroupRequest

from samerack.cluster.group_questions import find_coordinators
from samerack.cluster.wire import ANY_BROKER, BrokerClient, BrokerRequest
from samerack.protocol.consumer import encode_assignment, encode_subscription
from samerack.protocol.values import Assignment, Subscription, from_pairs

GROUPS: Final = 2_000
TOPICS: Final = 200
PER_TOPIC: Final = 100
"""Partitions. Each group reads one topic, and ten groups read each."""
_RACKS: Final = ("rack-a", "rack-b", "rack-c")
_SESSION_MS: Final = 1_200_000
PROPERTIES: Final = {
    "log.index.size.max.bytes": "4096",
    "group.max.session.timeout.ms": str(_SESSION_MS),
    "group.initial.rebalance.delay.ms": "0",
}
"""What brokers need for them."""
_TOPICS_AT_ONCE: Final = 25
"""Brokers refuse a request for many thousand partitions."""
_ATTEMPTS: Final = 20
"""A coordinator may still be loading its groups."""


def create_topics(bootstrap: str, brokers: list[int]) -> None:
    """Create the topics, with partitions on all brokers in turn."""
    topics = [
        NewTopic(
            f"topic-{number:03}",
            num_partitions=PER_TOPIC,
            replica_assignment=[[brokers[(number + one) % len(brokers)]] for one in range(PER_TOPIC)],
        )
        for number in range(TOPICS)
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for first in range(0, TOPICS, _TOPICS_AT_ONCE):
        for created in admin.create_topics(topics[first : first + _TOPICS_AT_ONCE], request_timeout=120).values():
            created.result()


def feed(bootstrap: str) -> None:
    """Send one record to each partition.

    Raises:
        RuntimeError: the brokers did not take all.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 200_000, "log_level": 0})
    for topic in range(TOPICS):
        for partition in range(PER_TOPIC):
            producer.produce(f"topic-{topic:03}", bytes(500), partition=partition)
        producer.poll(0)
    if producer.flush(240):
        raise RuntimeError("the brokers did not take all records in four minutes")


class Groups:
    """The groups, joined; closed with the connections that it is given."""

    def __init__(self, wire: BrokerClient) -> None:
        self._wire = wire
        self._names = [f"group-{number:04}" for number in range(GROUPS)]
        for attempt in range(_ATTEMPTS):
            found = self._ask([BrokerRequest(broker=ANY_BROKER, request=find_coordinators(self._names))])[
                0
            ].coordinators
            if all(not one.error_code for one in found):
                break
            time.sleep(0.5 * (attempt + 1))
        self._coordinators = {one.key: int(one.node_id) for one in found}
        self._members: dict[str, tuple[str, int]] = {}
        for attempt in range(_ATTEMPTS):
            missing = [name for name in self._names if name not in self._members]
            if not missing:
                break
            answers = self._to(missing, [_join(name) for name in missing])
            joined = {name: one for name, one in zip(missing, answers, strict=True) if not one.error_code}
            self._members |= {name: (one.member_id, one.generation_id) for name, one in joined.items()}
            time.sleep(0.5 * attempt)
        self._to(self._names, [_sync(name, *self._members[name]) for name in self._names])

    def commit(self, offset: int) -> None:
        """Commit this offset for all partitions of all groups."""
        self._to(self._names, [_commit(name, *self._members[name], offset) for name in self._names])

    def _to(self, names: list[str], requests: list[Any]) -> list[Any]:
        """Return the answers of the groups' coordinators."""
        return self._ask(
            [
                BrokerRequest(broker=self._coordinators[name], request=request)
                for name, request in zip(names, requests, strict=True)
            ]
        )

    def _ask(self, questions: list[BrokerRequest]) -> list[Any]:
        answers = self._wire.ask(questions, timeout=60)
        for answer in answers:
            if answer.error is not None:
                raise answer.error
        return [answer.response for answer in answers]


def _topic(name: str) -> str:
    return f"topic-{int(name[-4:]) % TOPICS:03}"


def _join(name: str) -> Any:
    rack = _RACKS[int(name[-4:]) % len(_RACKS)]
    return JoinGroupRequest(
        group_id=name,
        session_timeout_ms=_SESSION_MS,
        rebalance_timeout_ms=_SESSION_MS,
        member_id="",
        protocol_type="consumer",
        protocols=[("range", encode_subscription(Subscription(topics=(_topic(name),), rack=rack)))],
        max_version=3,  # newer versions need two requests
    )


def _sync(name: str, member: str, generation: int) -> Any:
    content = encode_assignment(Assignment(partitions=from_pairs((_topic(name), one) for one in range(PER_TOPIC))))
    return SyncGroupRequest(
        group_id=name, generation_id=generation, member_id=member, assignments=[(member, content)], max_version=3
    )


def _commit(name: str, member: str, generation: int, offset: int) -> Any:
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    one = of_topic.OffsetCommitRequestPartition
    rows = [one(partition_index=number, committed_offset=offset, committed_metadata="") for number in range(PER_TOPIC)]
    return OffsetCommitRequest(
        group_id=name,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[of_topic(name=_topic(name), partitions=rows)],
        max_version=7,
    )
