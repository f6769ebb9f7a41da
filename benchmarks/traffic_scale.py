"""Measures seconds and memory of one cycle with 2,000 groups that read 20,000 partitions of a real Kafka.

The groups are real, each with a member, an assignment and committed offsets, created by raw requests: one machine
cannot run two thousand consumers and the brokers. The agent measures in a separate process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from confluent_kafka import Producer
from kafka.protocol.consumer.group import JoinGroupRequest, OffsetCommitRequest, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from samerack.cluster.wire import ANY_BROKER, Question, Wire
from samerack.common.settings import load
from samerack.protocol.consumer import encode_assignment, encode_subscription
from samerack.protocol.model import Assignment, Subscription, from_pairs
from samerack.traffic.board import TrafficBoard
from samerack.traffic.metrics import TrafficMetrics
from samerack.traffic.watch import TrafficWatch
from sandbox.admin import Admin
from sandbox.cluster import Cluster

GROUPS: Final = 2_000
TOPICS: Final = 200
PER_TOPIC: Final = 100
PER_GROUP: Final = 10
CYCLES: Final = 5
_RACKS: Final = ("rack-a", "rack-b", "rack-c")
_SESSION_MS: Final = 1_200_000
_VALUE: Final = bytes(500)


Place: TypeAlias = tuple[str, str, list[int]]


def _group(number: int) -> Place:
    """Returns a group's name, topic and partitions."""
    topic, part = divmod(number, PER_TOPIC // PER_GROUP)
    return f"group-{number:04}", f"topic-{topic:03}", list(range(part * PER_GROUP, (part + 1) * PER_GROUP))


def _ask(wire: Wire, questions: list[Question]) -> list[Any]:
    answers = wire.ask(questions, timeout=60)
    broken = [answer.error for answer in answers if answer.error is not None]
    if broken:
        raise broken[0]
    return [answer.response for answer in answers]


class Groups:
    """Two thousand groups of one member each."""

    def __init__(self, wire: Wire, place: Callable[[int], Place] = _group) -> None:
        """Finds the coordinators.

        Args:
            wire: how brokers are asked.
            place: returns the name, topic and partitions of the group of a number.
        """
        self._wire = wire
        self._place = place
        self._members: dict[int, tuple[str, int]] = {}
        names = [place(number)[0] for number in range(GROUPS)]
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=names, min_version=4)
        for attempt in range(20):
            found = _ask(wire, [Question(broker=ANY_BROKER, request=request)])[0].coordinators
            if all(not one.error_code for one in found):
                break
            time.sleep(0.5 * (attempt + 1))
        self._coordinators = {one.key: int(one.node_id) for one in found}

    def join(self) -> None:
        """Let all members join and get their partitions."""
        left = list(range(GROUPS))
        for attempt in range(20):  # a coordinator may still be loading its groups
            answers = _ask(self._wire, [self._to(number, self._join(number)) for number in left])
            joined = {n: one for n, one in zip(left, answers, strict=True) if not one.error_code}
            self._members |= {n: (one.member_id, one.generation_id) for n, one in joined.items()}
            left = [number for number in left if number not in joined]
            if not left:
                break
            time.sleep(0.5 * (attempt + 1))
        else:
            raise RuntimeError(f"{len(left)} of {GROUPS} groups could not be joined")
        _ask(self._wire, [self._to(number, self._sync(number)) for number in range(GROUPS)])

    def commit(self, offset: int) -> None:
        """Commit this offset for all partitions of all groups."""
        _ask(self._wire, [self._to(number, self._commit(number, offset)) for number in range(GROUPS)])

    def _to(self, number: int, request: Any) -> Question:
        return Question(broker=self._coordinators[self._place(number)[0]], request=request)

    def _join(self, number: int) -> Any:
        group, topic, _ = self._place(number)
        subscription = encode_subscription(Subscription(topics=(topic,), rack=_RACKS[number % len(_RACKS)]))
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id="",
            protocol_type="consumer",
            protocols=[("range", subscription)],
            max_version=3,  # newer versions need two requests
        )

    def _sync(self, number: int) -> Any:
        group, topic, partitions = self._place(number)
        member, generation = self._members[number]
        content = encode_assignment(Assignment(partitions=from_pairs((topic, one) for one in partitions)))
        return SyncGroupRequest(
            group_id=group, generation_id=generation, member_id=member, assignments=[(member, content)], max_version=3
        )

    def _commit(self, number: int, offset: int) -> Any:
        group, topic, partitions = self._place(number)
        member, generation = self._members[number]
        of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
        one = of_topic.OffsetCommitRequestPartition
        rows = [
            one(partition_index=partition, committed_offset=offset, committed_metadata="") for partition in partitions
        ]
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[of_topic(name=topic, partitions=rows)],
            max_version=7,
        )


def feed(bootstrap: str) -> None:
    """Send one record to each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 200_000, "log_level": 0})
    for topic in range(TOPICS):
        for partition in range(PER_TOPIC):
            producer.produce(f"topic-{topic:03}", _VALUE, partition=partition)
        producer.poll(0)
    if producer.flush(240):
        raise RuntimeError("the brokers did not take all records in four minutes")


def measure() -> dict[str, Any]:
    """Returns the cost of cycles of an agent that observes all groups."""
    properties = {
        "log.index.size.max.bytes": "4096",
        "group.max.session.timeout.ms": str(_SESSION_MS),
        "group.initial.rebalance.delay.ms": "0",
    }
    with Cluster(properties=properties, heap_megabytes=900) as cluster, Admin(cluster.bootstrap, timeout=240) as admin:
        brokers = sorted(cluster.brokers)
        for number in range(TOPICS):
            places = [[brokers[(number + one) % len(brokers)]] for one in range(PER_TOPIC)]
            admin.create_topic(f"topic-{number:03}", places)
        feed(cluster.bootstrap)
        wire = Wire({"bootstrap_servers": cluster.bootstrap.split(",")})
        groups = Groups(wire)
        groups.join()
        groups.commit(0)
        command = [sys.executable, "-m", "benchmarks.traffic_scale", cluster.bootstrap]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:  # noqa: S603 - our own module
            if agent.stdin is None or agent.stdout is None:
                raise RuntimeError("the measuring process has no pipes")
            for cycle in range(CYCLES):
                agent.stdin.write("look\n")
                agent.stdin.flush()
                agent.stdout.readline()
                feed(cluster.bootstrap)
                groups.commit(cycle + 1)
            agent.stdin.close()
            results: dict[str, Any] = json.loads(agent.stdout.readline())
        wire.close()
        return results


def _peak_bytes() -> int:
    """Returns the kernel's peak memory of this program only: getrusage would include the process that forked it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _agent(bootstrap: str) -> None:
    """Run a cycle for each input line; print the cost at the end."""
    settings = load(
        flags={"kafka": {"bootstrap.servers": bootstrap}, "groups": ["none"], "traffic": {"groups": ["*"]}},
        environment={},
    )
    board = TrafficBoard()
    base = _peak_bytes()
    watch = TrafficWatch(settings, board=board, metrics=TrafficMetrics.silent(), rack_aware=lambda: True)
    seconds, processor = [], []
    for _ in sys.stdin:
        began = time.process_time()
        seconds.append(round(watch.poll().cycle_seconds, 2))
        processor.append(round(time.process_time() - began, 2))
        sys.stdout.write("\n")
        sys.stdout.flush()
    snapshot = board.latest()
    watch.close()
    result = {
        "groups": len(snapshot.groups),
        "partitions": sum(len(group.partitions) for group in snapshot.groups),
        "measured": sum(group.shares.present_bytes is not None for group in snapshot.groups),
        "cycle_seconds": seconds,
        "processor_seconds": processor,
        "base_bytes": base,
        "peak_bytes": _peak_bytes(),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    _agent(sys.argv[1])
