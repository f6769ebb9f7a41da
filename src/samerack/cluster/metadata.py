"""Describes brokers and topics once: racks, leaders, replicas and in-sync replicas, as a ClusterView."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.metadata import MetadataRequest

from samerack.cluster.errors import error_text
from samerack.cluster.view import ClusterView, NoRack, PartitionView, Rack
from samerack.cluster.wire import ANSWER_SECONDS, ANY_BROKER, Question, Wire, chunked
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


def ask_metadata(wire: Wire, topics: Collection[str], timeout: float = ANSWER_SECONDS) -> MetadataAnswer:
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
        brokers |= {int(one.node_id): one.rack or NoRack.UNSET for one in answer.response.brokers}
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


def read_metadata(wire: Wire, topics: Collection[str]) -> ClusterView:
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


def topic_names(wire: Wire) -> frozenset[str]:
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


def _question(names: Sequence[str] | None) -> Question:
    """Return the request for these topics, or for all."""
    topic = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=None if names is None else [topic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
        max_version=9,  # newer ones ask by topic id
    )
    return Question(broker=ANY_BROKER, request=request)


def _partitions(topic: Any) -> tuple[PartitionView, ...]:
    return tuple(
        _view(one.leader_id, tuple(one.replica_nodes), tuple(one.isr_nodes))
        for one in sorted(topic.partitions, key=lambda one: int(one.partition_index))
    )


@lru_cache(maxsize=_PLACEMENTS)
def _view(leader: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> PartitionView:
    """Return one object for the thousands of partitions that lie alike."""
    return PartitionView(leader=leader, replicas=replicas, in_sync=in_sync)
