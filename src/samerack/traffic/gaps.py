"""What figures lack, as values: one missing permission costs one figure and is reported, never raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from kafka import errors as kafka_errors

from samerack.cluster.errors import ErrorKind, cure_of, kind_of, permission_to_describe
from samerack.cluster.wire import ANY_BROKER, BrokerResponse
from samerack.common.errors import one_line
from samerack.traffic.snapshot import Family, Gap

LACKS: Final = {
    Family.METADATA: ("topics are not seen", "allow DESCRIBE on the topics"),
    Family.GROUPS: ("groups are not seen", "allow DESCRIBE on the groups"),
    Family.LOG_DIRS: ("bytes are not known", "allow DESCRIBE on the cluster"),
    Family.END_OFFSETS: ("bytes and lag are not known", "allow DESCRIBE on the topics"),
    Family.COMMITTED: ("what is read is not seen", "allow DESCRIBE on the groups and topics"),
    Family.PROBE: (
        "the serving replica is taken from replica.selector.class",
        "allow READ on the topics to be sure of it",
    ),
    Family.SAMPLE: (
        "compacted topics and old data are counted by average record size",
        "allow READ on the topics",
    ),
    Family.TOPIC_CONFIGS: ("compacted topics are recognised late", "allow DESCRIBE_CONFIGS on the topics"),
    Family.SELECTOR: (
        "only leaders count as near, unless probed",
        "allow DESCRIBE_CONFIGS on the cluster or set racks.replica_selector",
    ),
    Family.STATISTICS: ("an application's statistics were refused or cut; what was refused stays estimated", ""),
    Family.SCRAPE: ("a client's metrics cannot be read; its bytes stay estimated", ""),
}
"""What a figure lacks without an answer, and the permission that it needs."""

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
    if isinstance(error, str):
        return Gap(what=family, refused=False, where=where, reason=error, consequence=LACKS[family][0])
    lacks, permission = LACKS[family]
    if family is Family.GROUPS:
        permission = permission_to_describe(error, permission)
    cure = cure_of(error, permission)
    return Gap(
        what=family,
        refused=kind_of(error) is ErrorKind.NOT_ALLOWED,
        where=where,
        reason=one_line(error),
        consequence=f"{lacks}; {cure}" if cure else lacks,
    )


HAND_OVER: Final = "hand-over"
"""A gap that is not a failure, and in a report as long as the window lacks what was read."""


def handed_over(groups: Sequence[str], *, at: float) -> Gap:
    """Return the gap between another agent's measurements of groups and those of this one.

    `at` is when this one began, in seconds since 1970; when the other one ended is not known.
    """
    begun = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Gap(
        what=HAND_OVER,
        refused=False,
        where=groups[0] if len(groups) == 1 else f"{len(groups)} groups",
        reason=f"this process measures since {begun}, another one did before",
        consequence="what was read between the last measurement of that one and then is in no figure",
    )


def answered(answers: Iterable[BrokerResponse], family: Family, gaps: list[Gap]) -> Iterator[BrokerResponse]:
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
    error = kafka_errors.for_code(code)()
    if type(error).__name__ in _PASSING and not passing:
        return []
    return [failed(family, where, error)]
