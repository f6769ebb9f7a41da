"""Polls topics: metadata, log sizes of leader replicas, first and end offsets, cleanup policies; batched per broker.

Each function returns values and gaps: whatever was refused or failed is a gap, never an exception, so that one missing
permission costs one figure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from kafka import errors as kafka_errors
from kafka.protocol.admin.cluster import DescribeLogDirsRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest

from samerack.cluster.broker_configs import TOPIC, describe_configs
from samerack.cluster.metadata import ask_metadata
from samerack.cluster.view import ClusterView
from samerack.cluster.wire import ANY_BROKER, BrokerClient, BrokerRequest, chunked, in_turns
from samerack.traffic.gaps import answered, failed, refused
from samerack.traffic.snapshot import Family, Gap

Partition: TypeAlias = tuple[str, int]

KeyOf: TypeAlias = Callable[[str, int], Partition]
"""Returns a partition's key: the same object each time, since a dozen tables of all partitions use it."""

_AT_ONCE: Final = 2_000
"""Partitions, topics or groups in one request: responses stay below a few hundred kilobytes."""
_LATEST: Final = -1
_EARLIEST: Final = -2
_EARLIEST_LOCAL: Final = -4
_OFFSETS_VERSION: Final = 6
_LOCAL_VERSION: Final = 8
"""The first one in which a leader says where its own disk begins."""
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_CLEANUP: Final = "cleanup.policy"
_REMOTE: Final = "remote.storage.enable"


def plain_key(topic: str, number: int) -> Partition:
    """Return a key for a table that is not kept."""
    return topic, number


class Keys:
    """The keys of all partitions that are polled; a `KeyOf`."""

    def __init__(self) -> None:
        self._known: dict[Partition, Partition] = {}

    def __call__(self, topic: str, number: int) -> Partition:
        """Return the key of a partition; a member's assignment may have any number, also one that no topic has."""
        key = (topic, number)
        return self._known.setdefault(key, key)

    def keep(self, partitions: Collection[Partition]) -> None:
        """Forget all others, once they are the majority."""
        if len(self._known) > 2 * len(partitions):
            self._known = {partition: partition for partition in partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """First offset of a log and the offset after the last committed record (the high watermark)."""

    start: int
    end: int


def metadata(wire: BrokerClient, topics: Collection[str]) -> tuple[ClusterView, list[Gap]]:
    """Request the brokers with racks, and these topics.

    Raises:
        AgentError: No broker can be reached at all.
    """
    answer = ask_metadata(wire, topics)
    gaps = [failed(Family.METADATA, "", failure) for failure in answer.failures]
    for topic, code in answer.error_codes.items():
        gaps += refused(Family.METADATA, topic, code)
    return answer.view, gaps


def leaders(cluster: ClusterView, partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
    """Return these partitions by leader; those without a leader are left out."""
    led: dict[int, list[Partition]] = {}
    for partition in partitions:
        view = cluster.partition(*partition)
        if view is not None and view.leader in cluster.brokers:
            led.setdefault(view.leader, []).append(partition)
    return led


def log_sizes(
    wire: BrokerClient, led: Mapping[int, Sequence[Partition]], key: KeyOf
) -> tuple[dict[Partition, int], list[Gap]]:
    """Request the bytes of each partition's leader replica: brokers list every replica, only the leader's counts."""
    topic = DescribeLogDirsRequest.DescribableLogDirTopic

    def request(partitions: Sequence[Partition], _about: None) -> Any:
        topics = [topic(topic=name, partitions=numbers) for name, numbers in _by_topic(partitions).items()]
        return DescribeLogDirsRequest(topics=topics, max_version=4)

    questions = _to_leaders(led, request)
    sizes: dict[Partition, int] = {}
    gaps: list[Gap] = []
    for answer in answered(wire.ask_in_batches(questions), Family.LOG_DIRS, gaps):
        where, response = f"broker {answer.question.broker}", answer.response
        # without permission brokers answer version 3 and later with an error, before that with no directory at all
        without = 0 if response.results else kafka_errors.ClusterAuthorizationFailedError.errno
        gaps += refused(Family.LOG_DIRS, where, response.error_code or without)
        for directory in response.results:
            gaps += refused(Family.LOG_DIRS, where, directory.error_code)
            for one in directory.topics:
                for replica in one.partitions:
                    if not replica.is_future_key:
                        sizes[key(one.name, replica.partition_index)] = int(replica.partition_size)
    return sizes, gaps


def offsets(
    wire: BrokerClient, led: Mapping[int, Sequence[Partition]], key: KeyOf
) -> tuple[dict[Partition, Offsets], list[Gap]]:
    """Request the first and end offset of each partition from its leader."""
    questions = _to_leaders(led, _offsets_request, abouts=(_EARLIEST, _LATEST))
    starts: dict[Partition, int] = {}
    found: dict[Partition, Offsets] = {}
    gaps: list[Gap] = []
    for answer in answered(wire.ask_in_batches(questions), Family.END_OFFSETS, gaps):
        for topic in answer.response.topics:
            for one in topic.partitions:
                if one.error_code:
                    gaps += refused(Family.END_OFFSETS, str(topic.name), one.error_code)
                    continue
                partition, offset = key(topic.name, one.partition_index), int(one.offset)
                if answer.question.about == _EARLIEST:
                    starts[partition] = offset
                elif (start := starts.pop(partition, None)) is not None:
                    found[partition] = Offsets(start=min(start, offset), end=offset)
    return found, gaps


def stable_offsets(wire: BrokerClient, led: Mapping[int, Sequence[Partition]], key: KeyOf) -> dict[Partition, int]:
    """Request the last stable offset of each partition: no record of an open transaction lies below it.

    What fails is left out: the same brokers have just failed to give other offsets, or do so at the next poll.
    """
    return _more_offsets(wire, led, key, which=_LATEST, isolation=_READ_COMMITTED)


def local_starts(wire: BrokerClient, led: Mapping[int, Sequence[Partition]], key: KeyOf) -> dict[Partition, int]:
    """Request the first offset that lies on each leader's own disk, and not in remote storage only (KIP-405).

    What fails is left out, as in `stable_offsets`.
    """
    return _more_offsets(wire, led, key, which=_EARLIEST_LOCAL)


def _more_offsets(
    wire: BrokerClient,
    led: Mapping[int, Sequence[Partition]],
    key: KeyOf,
    *,
    which: int,
    isolation: int = _READ_UNCOMMITTED,
) -> dict[Partition, int]:
    questions = _to_leaders(led, partial(_offsets_request, isolation=isolation), abouts=(which,))
    return {
        key(topic.name, partition.partition_index): int(partition.offset)
        for answer in wire.ask_in_batches(questions)
        if answer.error is None
        for topic in answer.response.topics
        for partition in topic.partitions
        if not partition.error_code
    }


def _offsets_request(partitions: Sequence[Partition], which: int, *, isolation: int = _READ_UNCOMMITTED) -> Any:
    topic, partition = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            topic(name=name, partitions=[partition(partition_index=number, timestamp=which) for number in numbers])
            for name, numbers in _by_topic(partitions).items()
        ],
        max_version=_LOCAL_VERSION if which == _EARLIEST_LOCAL else _OFFSETS_VERSION,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicy:
    """Whether a topic is compacted, and whether its older part is in remote storage (KIP-405)."""

    compacted: bool = False
    tiered: bool = False


def policies(wire: BrokerClient, topics: Collection[str]) -> tuple[dict[str, TopicPolicy], list[Gap]]:
    """Request how each topic is stored, where the brokers answer."""
    known: dict[str, TopicPolicy] = {}
    gaps: list[Gap] = []
    questions = [
        BrokerRequest(broker=ANY_BROKER, request=describe_configs(TOPIC, chunk, (_CLEANUP, _REMOTE)))
        for chunk in chunked(sorted(topics), _AT_ONCE)
    ]
    for answer in answered(wire.ask_in_batches(questions), Family.TOPIC_CONFIGS, gaps):
        for result in answer.response.results:
            gaps += refused(Family.TOPIC_CONFIGS, str(result.resource_name), result.error_code)
            configs = {str(config.name): str(config.value or "") for config in result.configs or ()}
            if configs:
                known[str(result.resource_name)] = TopicPolicy(
                    compacted="compact" in configs.get(_CLEANUP, ""), tiered=configs.get(_REMOTE) == "true"
                )
    return known, gaps


def _to_leaders(
    led: Mapping[int, Sequence[Partition]],
    request: Callable[[Sequence[Partition], Any], Any],
    abouts: Sequence[Any] = (None,),
) -> Iterator[BrokerRequest]:
    """Yield the questions in turns, as `BrokerClient.ask_in_batches` sends them: each is made when its turn comes.

    The leader of some partitions gets a question about each of `abouts`, before those of the next ones.
    """
    lanes = [
        [(broker, chunk, about) for chunk in chunked(partitions, _AT_ONCE) for about in abouts]
        for broker, partitions in led.items()
    ]
    for broker, chunk, about in in_turns(lanes):
        yield BrokerRequest(broker=broker, request=request(chunk, about), about=about)


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics
