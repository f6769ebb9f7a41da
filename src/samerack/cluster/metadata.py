"""Describes brokers and topics once: racks, leaders, replicas and in-sync replicas, as a ClusterView.

`all_placements` describes where the replicas of all topics are, without an object for each: large clusters have many.
The response is of a version that every supported broker has, with fields of fixed sizes, and is read in one pass.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.metadata import MetadataRequest

from samerack.cluster.errors import error_text
from samerack.cluster.view import ClusterView, NoRack, PartitionView, Rack
from samerack.cluster.wire import ANSWER_SECONDS, ANY_BROKER, BrokerClient, BrokerRequest, RawRequest, chunked
from samerack.common.errors import AgentError

REQUEST_SECONDS: Final = 5.0
"""Limit for one request about brokers, topics or a group's type, where somebody waits for the answer."""
_TOPICS_PER_REQUEST: Final = 500
"""Responses stay below a few hundred kilobytes, and what is decoded of one takes no more than the rest of a poll."""
_PLACEMENTS: Final = 10_000
_ABSENT: Final = frozenset({kafka_errors.UnknownTopicOrPartitionError.errno, kafka_errors.InvalidTopicError.errno})
"""A topic with an invalid name cannot exist, and one member that subscribes to it must not hide all other topics."""
_REFUSED: Final = kafka_errors.TopicAuthorizationFailedError.errno


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataAnswer:
    """What was described, why topics were not (error code by topic), and why requests have no response."""

    view: ClusterView
    error_codes: Mapping[str, int]
    failures: tuple[Exception, ...]


def ask_metadata(wire: BrokerClient, topics: Collection[str], timeout: float = ANSWER_SECONDS) -> MetadataAnswer:
    """Ask for all brokers and these topics; distinguish absent topics from those that may not be described.

    A response without any broker counts as a failure: a broker that has just started may send one.

    Raises:
        RefusedError: TLS or SASL failed.
        AgentError: No broker can be reached at all.
    """
    names = sorted(topics)
    chunks = chunked(names, _TOPICS_PER_REQUEST) or [[]]
    cluster_id = ""
    brokers: dict[int, Rack] = {}
    views: dict[str, tuple[PartitionView, ...]] = {}
    codes: dict[str, int] = {}
    failures: list[Exception] = []
    for answer in wire.ask_in_batches((_question(chunk) for chunk in chunks), timeout):
        if answer.error is not None or not answer.response.brokers:
            failures.append(answer.error or kafka_errors.BrokerNotAvailableError("a broker lists no brokers"))
            continue
        cluster_id = answer.response.cluster_id or ""
        brokers |= {int(broker.node_id): broker.rack or NoRack.UNSET for broker in answer.response.brokers}
        for topic in answer.response.topics:
            if topic.error_code:
                codes[str(topic.name)] = int(topic.error_code)
            else:
                views[str(topic.name)] = _partitions(topic)
    view = ClusterView(
        cluster_id=cluster_id,
        brokers=brokers,
        topics=views,
        absent=frozenset(topic for topic, code in codes.items() if code in _ABSENT),
        refused=frozenset(topic for topic, code in codes.items() if code == _REFUSED),
    )
    return MetadataAnswer(view=view, error_codes=codes, failures=tuple(failures))


def read_metadata(wire: BrokerClient, topics: Collection[str]) -> ClusterView:
    """Poll all brokers and these topics once, and return a view only if it is complete.

    Raises:
        RefusedError: TLS or SASL failed.
        AgentError: The cluster did not answer, or could not describe a topic.
    """
    answer = ask_metadata(wire, topics, REQUEST_SECONDS)
    for failure in answer.failures:
        raise _failure(failure) from failure
    for topic, code in answer.error_codes.items():
        if code not in _ABSENT and code != _REFUSED:
            raise _failure(kafka_errors.for_code(code)(), f"topic {topic}: ")
    return answer.view


def topic_names(wire: BrokerClient) -> frozenset[str]:
    """Return the names of all topics that this principal may describe; internal ones are left out.

    Raises:
        RefusedError: TLS or SASL failed.
        AgentError: The cluster did not answer.
    """
    (answer,) = wire.ask([_question(None)], REQUEST_SECONDS)
    if answer.error is not None:
        raise _failure(answer.error) from answer.error
    return frozenset(str(topic.name) for topic in answer.response.topics if not topic.is_internal)


def _failure(error: Exception, what: str = "") -> AgentError:
    return AgentError(f"kafka: metadata: {what}{error_text(error, REQUEST_SECONDS)}")


def _question(names: Sequence[str] | None) -> BrokerRequest:
    """Return the request for these topics, or for all."""
    topic = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=None if names is None else [topic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
        max_version=9,  # newer ones ask by topic id
    )
    return BrokerRequest(broker=ANY_BROKER, request=request)


def _partitions(topic: Any) -> tuple[PartitionView, ...]:
    return tuple(
        _view(partition.leader_id, tuple(partition.replica_nodes), tuple(partition.isr_nodes))
        for partition in sorted(topic.partitions, key=lambda partition: int(partition.partition_index))
    )


@lru_cache(maxsize=_PLACEMENTS)
def _view(leader: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> PartitionView:
    """Return one object for the thousands of partitions that lie alike."""
    return PartitionView(leader=leader, replicas=replicas, in_sync=in_sync)


_VERSION: Final = 8
_PARTITION: Final = Struct(">hiiii")
"""Error code, number, leader, leader epoch, and how many replicas follow."""
_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")
_FLAG: Final = Struct(">?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """Every partition that this principal may describe has a row; those of a topic follow each other by number.

    Attributes:
        rows: the rows of each topic.
        internal: the topics that brokers write for clients.
        placement: index into `brokers`, by row.
        brokers: each placement once: broker ids, the leader first; NO_LEADER where there is none.
    """

    rows: Mapping[str, range]
    internal: frozenset[str]
    placement: array[int]
    brokers: tuple[tuple[int, ...], ...]


def all_placements(wire: BrokerClient) -> Placements:
    """Ask for the placement of all replicas.

    Raises:
        RefusedError: TLS or SASL failed.
        AgentError: The cluster did not answer.
    """
    (answer,) = wire.ask([BrokerRequest(broker=ANY_BROKER, request=placements_request())])
    if answer.error is not None:
        raise AgentError(f"kafka: metadata: {error_text(answer.error, ANSWER_SECONDS)}") from answer.error
    found: Placements = answer.response
    return found


def placements_request() -> RawRequest:
    """Return the request, whose response is a `Placements`."""
    return RawRequest(
        api_key=MetadataRequest.API_KEY,
        version=_VERSION,
        flexible=False,
        body=MetadataRequest(topics=None, allow_auto_topic_creation=False).encode(version=_VERSION),
        read=read_placements,
    )


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads fields one after the other."""

    content: bytes
    at: int = 0

    def number(self, kind: Struct = _INT32) -> int:
        (value,) = kind.unpack_from(self.content, self.at)
        self.at += kind.size
        return int(value)

    def text(self) -> str:
        length = max(0, self.number(_INT16))  # -1 is none
        self.at += length
        return self.content[self.at - length : self.at].decode()


@dataclass(slots=True, kw_only=True)
class _Interned:
    """Numbers of placements: thousands of partitions share few."""

    numbers: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def of(self, leader: int, replicas: bytes) -> int:
        return self.numbers.setdefault((leader, replicas), len(self.numbers))

    def brokers(self) -> tuple[tuple[int, ...], ...]:
        found = []
        for leader, replicas in self.numbers:
            followers = (broker for (broker,) in _INT32.iter_unpack(replicas) if broker != leader)
            found.append((leader, *followers))
        return tuple(found)


def read_placements(content: bytes) -> Placements:
    """Return the placements of a Metadata response of the request's version.

    Raises:
        ValueError, struct.error: It is not a response.
    """
    reader = _Reader(content=content)
    reader.number()  # throttle time
    for _ in range(reader.number()):
        reader.number()
        reader.text()
        reader.number()
        reader.text()
    reader.text()
    reader.number()
    rows: dict[str, range] = {}
    internal: list[str] = []
    placement = array("i")
    interned = _Interned()
    for _ in range(reader.number()):
        error = reader.number(_INT16)
        topic = reader.text()
        if reader.number(_FLAG):
            internal.append(topic)
        begin = len(placement)
        placement.extend(_placed_partitions(reader, interned))
        reader.number()  # authorized operations
        if error:
            del placement[begin:]
        else:
            rows[topic] = range(begin, len(placement))
    return Placements(rows=rows, internal=frozenset(internal), placement=placement, brokers=interned.brokers())


def _placed_partitions(reader: _Reader, interned: _Interned) -> list[int]:
    """Return the placements of a topic's partitions, by number."""
    content = reader.content
    found: list[tuple[int, int]] = []
    for _ in range(reader.number()):
        _, number, leader, _, count = _PARTITION.unpack_from(content, reader.at)
        at = reader.at + _PARTITION.size
        end = at + 4 * count
        found.append((number, interned.of(leader, content[at:end])))
        for _ in range(2):  # in-sync and offline replicas
            (count,) = _INT32.unpack_from(content, end)
            end += 4 + 4 * count
        reader.at = end
    return [placement for _, placement in sorted(found)]
