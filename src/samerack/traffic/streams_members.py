"""What members of a live Kafka Streams application report, and their tasks with source partitions, on both protocols.

On the classic protocol a client is in the user data of its subscriptions, as of the last join, and tasks are in what
the leader sent to the members: each active partition with its task, and each standby task with the source partitions
that the task would read. KIP-1071 groups are described in fields, with their topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import NAMESPACE_OID, UUID, uuid5

from samerack.assignors.streams.application import ProcessId, TaskId
from samerack.cluster.view import ClusterView
from samerack.protocol.consumer import decode_assignment
from samerack.protocol.errors import ProtocolError
from samerack.protocol.streams import decode_assignment_info, decode_subscription_info
from samerack.protocol.streams_values import MAX_VERSION, NEVER, StreamsTask
from samerack.protocol.values import to_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsClient:
    """One member's client.

    `process_id` is the instance, of which each thread is a member; "" where an unknown newer version hides it.
    `endpoint` is `application.server`, or "". Tasks are as Kafka writes them (SUBTOPOLOGY_PARTITION): `active` those
    that it runs (classic: ran when it last joined), `standby` those whose state it keeps in addition.
    """

    process_id: str
    endpoint: str
    tags: tuple[tuple[str, str], ...]
    active: tuple[str, ...]
    standby: tuple[str, ...]


def from_subscription(user_data: bytes | None) -> StreamsClient:
    """Decode the client of a member on the classic protocol.

    Raises:
        ProtocolError: The bytes are no subscription info.
    """
    if user_data is None:
        raise ProtocolError("no user data; Kafka Streams always writes some", field="user_data", offset=0)
    info = decode_subscription_info(user_data)
    return StreamsClient(
        process_id=str(info.process_id) if info.version <= MAX_VERSION else "",
        endpoint=info.user_endpoint or "",
        tags=tuple(sorted(info.client_tags)),
        active=tuple(f"{task.subtopology}_{task.partition}" for task in sorted(info.active_tasks)),
        standby=tuple(f"{task.subtopology}_{task.partition}" for task in sorted(info.standby_tasks)),
    )


def process_of(client: StreamsClient | None) -> ProcessId | None:
    """Return the instance of a member, or None if it is not known; brokers keep its id as any text."""
    if client is None or not client.process_id:
        return None
    try:
        return ProcessId(uuid=UUID(client.process_id))
    except ValueError:
        return ProcessId(uuid=uuid5(NAMESPACE_OID, client.process_id))


def from_description(raw: Any) -> StreamsClient:
    """Convert the client of a KIP-1071 member."""
    end = raw.user_endpoint
    return StreamsClient(
        process_id=raw.process_id,
        endpoint=f"{end.host}:{int(end.port)}" if end is not None else "",
        tags=tuple(sorted((tag.key, tag.value) for tag in raw.client_tags)),
        active=_names(raw.assignment.active_tasks),
        standby=_names((*raw.assignment.standby_tasks, *raw.assignment.warmup_tasks)),
    )


def _names(tasks: Iterable[Any]) -> tuple[str, ...]:
    return tuple(f"{task.subtopology_id}_{int(number)}" for task in tasks for number in sorted(task.partitions))


Sources: TypeAlias = tuple[tuple[TaskId, tuple[tuple[str, int], ...]], ...]
"""Tasks, ascending, each with the partitions that it reads, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTasks:
    """What a member of the classic protocol was assigned last; warm-ups are among the standby tasks.

    `next_rebalance_ms`: when its client requests a follow-up rebalance, in ms since 1970; None for never. `sources` are
    the partitions that its tasks read.
    """

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    next_rebalance_ms: int | None = None
    sources: Mapping[TaskId, frozenset[tuple[str, int]]] = field(default_factory=dict)


def of_member(assignment: bytes) -> MemberTasks:
    """Decode the tasks in a member's assignment on the classic protocol.

    Raises:
        ProtocolError: The bytes are not such an assignment.
    """
    if not assignment:
        return MemberTasks()
    decoded = decode_assignment(assignment)
    if decoded.user_data is None:
        return MemberTasks()
    info = decode_assignment_info(decoded.user_data)
    sources: dict[TaskId, set[tuple[str, int]]] = {}
    # one task for each partition, in the order that Kafka Streams sorts partitions into
    for task, partition in zip(info.active, sorted(to_pairs(decoded.partitions)), strict=False):
        sources.setdefault(named(task), set()).add(partition)
    active = frozenset(sources)
    for task, partitions in info.standby:
        sources.setdefault(named(task), set()).update(partitions)
    return MemberTasks(
        active=active,
        standby=frozenset(named(task) for task, _ in info.standby),
        next_rebalance_ms=None if info.next_rebalance_ms == NEVER else info.next_rebalance_ms,
        sources={task: frozenset(partitions) for task, partitions in sources.items()},
    )


def named(task: StreamsTask) -> TaskId:
    """Return the id of a task in a message."""
    return TaskId(topology=task.topology, subtopology=task.subtopology, partition=task.partition)


def of_members(members: Iterable[MemberTasks]) -> Sources:
    """Return all tasks that members have in any role."""
    found: dict[TaskId, frozenset[tuple[str, int]]] = {}
    for member in members:
        for task, partitions in member.sources.items():
            found[task] = found.get(task, frozenset()) | partitions
    return tuple((task, tuple(sorted(found[task]))) for task in sorted(found))


def subtopologies_of(described: Any) -> Sequence[Any]:
    """Return the subtopologies of a KIP-1071 group; there are none until its topology is initialised."""
    return described.topology.subtopologies or () if described.topology is not None else ()


def topics_by_subtopology(described: Any) -> dict[str, tuple[str, ...]]:
    """Return the topics that each subtopology of a KIP-1071 group reads, ascending, by its id."""
    return {
        str(part.subtopology_id): tuple(
            sorted({*map(str, part.source_topics), *(str(topic.name) for topic in part.repartition_source_topics)})
        )
        for part in subtopologies_of(described)
    }


def of_topology(described: Any, cluster: ClusterView) -> Sources:
    """Return all tasks of a KIP-1071 group: a subtopology has as many as its topic with most partitions."""
    read = topics_by_subtopology(described)
    numbers = numbers_of(read)
    tasks = []
    for name, topics in read.items():
        counts = {topic: len(cluster.topics.get(topic, ())) for topic in topics}
        for number in range(max(counts.values(), default=0)):
            task = TaskId(subtopology=numbers[name], partition=number)
            tasks.append((task, tuple((topic, number) for topic, count in counts.items() if number < count)))
    return tuple(sorted(tasks))


def numbers_of(subtopologies: Iterable[str]) -> dict[str, int]:
    """Return the numbers of subtopologies by their ids, which Kafka Streams makes of numbers."""
    names = list(subtopologies)
    if all(name.isdecimal() for name in names):
        return {name: int(name) for name in names}
    return {name: number for number, name in enumerate(sorted(names))}
