"""Finds which replica serves a reader: asks the leader with the reader's rack, or applies a rule to the metadata.

A fetch at the high watermark with the rack in it is answered with the preferred read replica and no data (KIP-392). It
works with any ReplicaSelector and sees replicas that fell behind. It needs READ on the topic; without that the rule is
an in-sync replica in the reader's rack where the brokers select by rack, else the leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kafka.protocol.consumer.fetch import FetchRequest

from samerack.cluster.view import ClusterView, PartitionView
from samerack.cluster.wire import BrokerClient, BrokerRequest, chunked, in_turns
from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.gaps import answered, refused
from samerack.traffic.snapshot import Family, Gap

Reader: TypeAlias = tuple[Partition, str]
"""A partition and the rack that a member fetches it with."""
ServedByRack: TypeAlias = Mapping[str, Mapping[Partition, "Served"]]

FETCH_VERSION: Final = 12
"""Version 13 names topics by id."""
_AT_ONCE: Final = 1_000
_NO_SESSION: Final = -1
_DOUBT_SECONDS: Final = 2.0
"""An answer that differs from the rule is requested again after this time, then after twice as long, and so on: the
followers of a new topic serve only once the leader knows how far they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The broker that serves a reader, the metadata under which it was learned, when, and its validity in seconds."""

    broker: int
    view: PartitionView
    at: float
    seconds: float


def guess(cluster: ClusterView, partition: PartitionView, rack: str | None, *, rack_aware: bool) -> int | None:
    """Return the broker that serves a rack by the rule; None where there is no such replica and no leader."""
    if rack_aware and rack is not None:
        near = [broker for broker in partition.in_sync if cluster.brokers.get(broker) == rack]
        if near:
            return partition.leader if partition.leader in near else min(near)
    return partition.leader if partition.leader >= 0 else None


def due(
    readers: Mapping[str, Iterable[Partition]], known: ServedByRack, cluster: ClusterView, *, now: float
) -> list[Reader]:
    """Return the readers, given by rack, whose broker is unknown, was learned under other metadata, or has expired."""
    result = []
    for rack, partitions in readers.items():
        of_rack = known.get(rack, {})
        for partition in sorted(partitions):
            view, served = cluster.partition(*partition), of_rack.get(partition)
            if view is None or view.leader < 0:
                continue
            if served is None or served.view != view or now - served.at >= served.seconds:
                result.append((partition, rack))
    return result


def settle(  # noqa: PLR0913 - all that an answer is judged by
    found: Mapping[Reader, int],
    known: ServedByRack,
    cluster: ClusterView,
    *,
    now: float,
    rack_aware: bool,
    seconds: float,
) -> dict[Reader, Served]:
    """Return the leaders' answers with their validity: `seconds`, or less where the rule expects another rack."""
    result = {}
    shared: dict[tuple[int, PartitionView, float], Served] = {}  # of thousands of readers few differ
    for reader, broker in found.items():
        (topic, number), rack = reader
        view, last, holds = cluster.topics[topic][number], known.get(rack, {}).get((topic, number)), seconds
        expected = guess(cluster, view, rack, rack_aware=rack_aware)
        if expected is not None and cluster.brokers.get(broker) != cluster.brokers.get(expected):
            same = last is not None and (last.broker, last.view) == (broker, view)
            holds = min(seconds, 2 * last.seconds if last is not None and same else _DOUBT_SECONDS)
        one = (broker, view, holds)
        if one not in shared:
            shared[one] = Served(broker=broker, view=view, at=now, seconds=holds)
        result[reader] = shared[one]
    return result


def probe(
    wire: BrokerClient, readers: Sequence[Reader], cluster: ClusterView, offsets: Mapping[Partition, Offsets]
) -> tuple[dict[Reader, int], list[Gap]]:
    """Ask the leaders which broker serves; one request per leader and rack."""
    batches: dict[tuple[int, str], list[Partition]] = {}
    for (topic, number), rack in readers:
        if (topic, number) in offsets:
            leader = cluster.topics[topic][number].leader
            batches.setdefault((leader, rack), []).append((topic, number))
    # a fetch at the high watermark asks and does not read
    lanes: dict[int, list[tuple[int, str, Sequence[Partition]]]] = {}
    for (leader, rack), partitions in batches.items():
        lanes.setdefault(leader, []).extend((leader, rack, chunk) for chunk in chunked(partitions, _AT_ONCE))
    questions = (
        BrokerRequest(
            broker=leader,
            request=raw_fetch([(one, offsets[one].end, 1) for one in chunk], rack=rack, max_bytes=1),
            about=rack,
        )
        for leader, rack, chunk in in_turns(lanes.values())
    )
    found: dict[Reader, int] = {}
    gaps: list[Gap] = []
    asked = {reader: reader for reader in readers}
    for answer in answered(wire.ask_in_batches(questions), Family.PROBE, gaps):
        leader = answer.question.broker
        gaps += refused(Family.PROBE, f"broker {leader}", answer.response.error_code)
        for topic in answer.response.responses:
            for partition in topic.partitions:
                if partition.error_code:
                    gaps += refused(Family.PROBE, str(topic.topic), partition.error_code)
                    continue
                name, number = str(topic.topic), int(partition.partition_index)
                preferred = int(partition.preferred_read_replica)
                reader = ((name, number), answer.question.about)
                found[asked.get(reader, reader)] = preferred if preferred >= 0 else leader
    return found, gaps


def raw_fetch(wanted: Sequence[tuple[Partition, int, int]], *, rack: str, max_bytes: int) -> Any:
    """Return a fetch of (partition, offset, most bytes of it), without waiting, outside any session."""
    topic, partition = FetchRequest.FetchTopic, FetchRequest.FetchTopic.FetchPartition
    topics: dict[str, list[Any]] = {}
    for (name, number), offset, limit in wanted:
        topics.setdefault(name, []).append(
            partition(
                partition=number,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=limit,
            )
        )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=_NO_SESSION,
        topics=[topic(topic=name, partitions=rows) for name, rows in topics.items()],
        forgotten_topics_data=[],
        rack_id=rack,
        min_version=11,
        max_version=FETCH_VERSION,
    )
