"""Failed and refused requests as values: one missing permission costs one figure and is reported, never raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kafka import errors as kafka_errors

from samerack.cluster.wire import ANY_BROKER, Answer
from samerack.common.errors import one_line
from samerack.traffic.snapshot import Family, Gap

CONSEQUENCES: Final = {
    Family.METADATA: "topics are not seen; allow DESCRIBE on the topics",
    Family.GROUPS: "groups are not seen; allow DESCRIBE on the groups",
    Family.LOG_DIRS: "bytes are not known; allow DESCRIBE on the cluster",
    Family.END_OFFSETS: "bytes and lag are not known; allow DESCRIBE on the topics",
    Family.COMMITTED: "what is read is not seen; allow DESCRIBE on the groups and topics",
    Family.PROBE: "the serving replica is taken from replica.selector.class; allow READ on the topics to be sure of it",
    Family.SAMPLE: "compacted topics and old data are counted by average record size; allow READ on the topics",
    Family.TOPIC_CONFIGS: "compacted topics are recognised late; allow DESCRIBE_CONFIGS on the topics",
    Family.SELECTOR: "only leaders count as near, unless probed; allow DESCRIBE_CONFIGS on the cluster or set "
    "racks.replica_selector",
    Family.STATISTICS: "an application's statistics were refused; its bytes stay estimated",
    Family.SCRAPE: "a client's metrics cannot be read; its bytes stay estimated",
}
"""What a figure lacks without an answer, and the cure."""

_REFUSALS: Final = frozenset(
    {
        "TopicAuthorizationFailedError",
        "GroupAuthorizationFailedError",
        "ClusterAuthorizationFailedError",
        "NotAllowedError",
    }
)
_PASSING: Final = frozenset(
    {
        "NotLeaderForPartitionError",
        "LeaderNotAvailableError",
        "NotCoordinatorError",
        "CoordinatorNotAvailableError",
        "CoordinatorLoadInProgressError",
        "UnknownTopicOrPartitionError",
        "OffsetOutOfRangeError",
        "FencedLeaderEpochError",
        "UnknownLeaderEpochError",
        "KafkaStorageError",
        "ReplicaNotAvailableError",
        "OffsetNotAvailableError",
    }
)
"""Normal in a running cluster: the next cycle asks again, and no gap is reported."""


def failed(family: Family, where: str, error: Exception | str) -> Gap:
    """Return the gap of a request without an answer, or of what is refused for a reason."""
    return Gap(
        what=family,
        refused=type(error).__name__ in _REFUSALS,
        where=where,
        reason=error if isinstance(error, str) else one_line(error),
        consequence=CONSEQUENCES[family],
    )


def answered(answers: Iterable[Answer], family: Family, gaps: list[Gap]) -> Iterator[Answer]:
    """Yield the answers that have a response, and add a gap for each request without."""
    for answer in answers:
        broker = answer.question.broker
        if answer.error is None:
            yield answer
        else:
            gaps.append(failed(family, f"broker {broker}" if broker != ANY_BROKER else "", answer.error))


def refused(family: Family, where: str, code: int, *, passing: bool = False) -> list[Gap]:
    """Return the gap that an error code in a response leaves; none for success.

    `where` is a broker, topic or group. Errors that pass by themselves leave a gap only if `passing`: the next cycle
    asks again.
    """
    if not code:
        return []
    name = kafka_errors.for_code(code).__name__
    if name in _PASSING and not passing:
        return []
    return [Gap(what=family, refused=name in _REFUSALS, where=where, reason=name, consequence=CONSEQUENCES[family])]


def merged(gaps: list[Gap]) -> tuple[Gap, ...]:
    """Return each distinct gap once."""
    return tuple(dict.fromkeys(gaps))
