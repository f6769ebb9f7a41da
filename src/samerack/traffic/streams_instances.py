"""The clients of a live Kafka Streams application with tasks and state, and its changelogs, on both protocols.

On the classic protocol each thread is a member: what it was assigned is of the last rebalance, and what it reports
about its state is of its last join. The group's metadata names no changelog there. Their names begin with the
application id and end with `-changelog`, and each has a partition for every task of its subtopology; which one that is
follows from names, from numbers of partitions and from where members have state, or it is unknown. KIP-1071 groups are
described as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from samerack.assignors.streams.application import ProcessId, TaskId
from samerack.protocol.consumer import decode_subscription
from samerack.protocol.errors import ProtocolError
from samerack.protocol.streams import OFFSETS_SINCE, decode_subscription_info
from samerack.protocol.streams_values import LATEST_OFFSET, MAX_VERSION
from samerack.traffic import streams_members
from samerack.traffic.snapshot import ObservedGroup, ObservedMember
from samerack.traffic.streams_members import MemberTasks, Sources, process_of

_CHANGELOG: Final = "-changelog"
_REPARTITION: Final = "-repartition"


class KnownBy(Enum):
    """How the subtopology of a changelog is known."""

    TOPOLOGY = "topology"
    GIVEN = "given"
    NAME = "name"
    PARTITIONS = "partitions"
    STATE = "state"
    SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changelog:
    """One changelog, and the subtopology whose state it holds, among the candidates; None if that is not known.

    `known_by` is how: the brokers' description; the user; a repartition topic of the same store; the only subtopology
    with as many tasks; the only one of these in which members have state; a source topic that serves as changelog.
    """

    topic: str
    partitions: int
    subtopology: int | None
    known_by: KnownBy | None
    candidates: tuple[int, ...] = ()


def changelog_topics(application: str, topics: Iterable[str], groups: Collection[str]) -> tuple[str, ...]:
    """Return the names of an application's changelogs, ascending.

    A topic that may belong to two applications, of which `groups` are all names, is that of the longer name:
    `a-b-store-changelog` is of `a-b`.
    """
    longer = tuple(f"{group}-" for group in groups if group.startswith(f"{application}-"))
    return tuple(
        sorted(
            topic
            for topic in topics
            if topic.startswith(f"{application}-")
            and topic.endswith(_CHANGELOG)
            and len(topic) > len(application) + len(_CHANGELOG) + 1
            and not topic.startswith(longer)
        )
    )


def match(
    application: str,
    changelogs: Mapping[str, int],
    sources: Sources,
    *,
    stateful: Collection[int],
    given: Mapping[str, int],
) -> tuple[Changelog, ...]:
    """Find the subtopology of every changelog, given how many partitions each has.

    `stateful` are subtopologies of which members have state with a changelog, as far as members say so; `given` is what
    the user knows: subtopology by changelog.
    """
    sizes = Counter(task.subtopology for task, _ in sources)
    readers = {topic: task.subtopology for task, partitions in sources for topic, _ in partitions}
    found = []
    for topic, count in changelogs.items():
        candidates = tuple(sorted(part for part, size in sizes.items() if size == count))
        store = topic.removeprefix(f"{application}-").removesuffix(_CHANGELOG)
        twin = readers.get(f"{application}-{store}{_REPARTITION}")
        with_state = [part for part in candidates if part in stateful]
        subtopology: int | None = None
        known_by: KnownBy | None = None
        if topic in given:
            subtopology, known_by = given[topic], KnownBy.GIVEN
        elif twin is not None and twin in candidates:
            subtopology, known_by = twin, KnownBy.NAME
        elif len(candidates) == 1:
            subtopology, known_by = candidates[0], KnownBy.PARTITIONS
        elif len(with_state) == 1:
            subtopology, known_by = with_state[0], KnownBy.STATE
        found.append(
            Changelog(topic=topic, partitions=count, subtopology=subtopology, known_by=known_by, candidates=candidates)
        )
    found += given_sources(sources, given)
    return (*found, *_sources_that_serve(found, sources, stateful))


def is_internal(topic: str) -> bool:
    """Return whether a source is a repartition topic, which Kafka Streams makes and never restores a table from."""
    return topic.endswith(_REPARTITION)


def topics_read(sources: Sources) -> dict[int, dict[str, int]]:
    """Return the topics that each subtopology reads, each with the number of its partitions that are read."""
    read: dict[int, dict[str, int]] = {}
    for task, partitions in sources:
        topics = read.setdefault(task.subtopology, {})
        for topic, _ in partitions:
            topics[topic] = topics.get(topic, 0) + 1
    return read


def given_sources(sources: Sources, given: Mapping[str, int]) -> list[Changelog]:
    """Return the sources that serve as changelogs because the user says so: the tables of an optimised topology."""
    return [
        Changelog(topic=topic, partitions=topics[topic], subtopology=part, known_by=KnownBy.SOURCE, candidates=(part,))
        for part, topics in topics_read(sources).items()
        for topic in sorted(topics)
        if given.get(topic) == part
    ]


def _sources_that_serve(found: list[Changelog], sources: Sources, stateful: Collection[int]) -> list[Changelog]:
    """Return sources that serve as changelog: the only one that may in a subtopology with state and no changelog."""
    taken = {part for one in found for part in (one.candidates if one.subtopology is None else (one.subtopology,))}
    read = topics_read(sources)
    result = []
    for part in sorted(set(stateful) - taken):
        topics = read.get(part, {})
        tables = {topic: size for topic, size in topics.items() if not is_internal(topic)} or topics
        if len(tables) == 1:
            ((topic, size),) = tables.items()
            known_by = KnownBy.SOURCE
            result.append(
                Changelog(topic=topic, partitions=size, subtopology=part, known_by=known_by, candidates=(part,))
            )
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A Kafka Streams client, with a member for each thread; warm-ups are among the standby tasks.

    `offset_sums` are the offsets of its state, summed over the changelogs: LATEST_OFFSET if it ran the task when it
    said so, UNKNOWN_OFFSET_SUM if it does not know. `followup_ms`: when it requests a follow-up rebalance, in ms since
    1970.
    """

    process: ProcessId
    members: tuple[ObservedMember, ...]
    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    followup_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Something that cannot be known, and the cause, with the cure if there is one."""

    what: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """All clients of an application, ascending, with its tasks and what they read.

    `changelogs` are topics by subtopology; None if the protocol does not name them. `unknown` are members that could
    not be read.
    """

    clients: tuple[Instance, ...]
    sources: Sources
    changelogs: Mapping[int, tuple[str, ...]] | None = None
    unknown: tuple[Unknown, ...] = ()

    @property
    def stateful(self) -> frozenset[int]:
        """Returns the subtopologies of which clients have state with a changelog: only such tasks have offset sums."""
        tasks = {task for client in self.clients for task in (*client.offset_sums, *client.standby)}
        return frozenset(task.subtopology for task in tasks)


def of_classic(described: Any, group: ObservedGroup) -> Instances:
    """Return the clients of a group on the classic protocol; `group` is what `traffic.groups.classic` reads there."""
    seen = {member.id: member for member in group.members}
    parts: dict[ProcessId, list[tuple[ObservedMember, MemberTasks, dict[TaskId, int]]]] = {}
    unknown = []
    for raw in described.members:
        member = seen.get(raw.member_id)
        if member is None:
            continue
        process = process_of(member.streams)
        if process is None:
            cause = group.note or f"it writes a SubscriptionInfo newer than version {MAX_VERSION}, the newest known"
            unknown.append(Unknown(what=f"member {member.id}", cause=cause))
            continue
        try:
            info = decode_subscription_info(decode_subscription(bytes(raw.member_metadata)).user_data or b"")
            tasks = streams_members.of_member(bytes(raw.member_assignment))
        except ProtocolError as error:
            unknown.append(Unknown(what=f"member {member.id}", cause=str(error)))
            continue
        sums = {
            streams_members.named(task): offsets
            for task, offsets in info.task_offset_sums
            # older clients also name tasks without state among those that they ran
            if info.version >= OFFSETS_SINCE or offsets != LATEST_OFFSET
        }
        parts.setdefault(process, []).append((member, tasks, sums))
    clients = (_joined(process, found) for process, found in sorted(parts.items()))
    return Instances(clients=tuple(clients), sources=group.tasks, unknown=tuple(unknown))


def _joined(process: ProcessId, parts: list[tuple[ObservedMember, MemberTasks, dict[TaskId, int]]]) -> Instance:
    """Return a client from its threads; the one that joined last knows best how far the state is."""
    sums: dict[TaskId, int] = {}
    for _, _, reported in parts:
        for task, offsets in reported.items():
            sums[task] = offsets if task not in sums or offsets < 0 else max(sums[task], offsets)
    follow_ups = [tasks.next_rebalance_ms for _, tasks, _ in parts if tasks.next_rebalance_ms is not None]
    return Instance(
        process=process,
        members=tuple(member for member, _, _ in parts),
        active=frozenset().union(*(tasks.active for _, tasks, _ in parts)),
        standby=frozenset().union(*(tasks.standby for _, tasks, _ in parts)),
        offset_sums=sums,
        followup_ms=min(follow_ups, default=None),
    )


def of_streams(described: Any, group: ObservedGroup) -> Instances:
    """Return the clients of a KIP-1071 group; `group` is the same as `traffic.groups.streams` reads it."""
    subtopologies = streams_members.subtopologies_of(described)
    numbers = streams_members.numbers_of(str(part.subtopology_id) for part in subtopologies)
    seen = {member.id: member for member in group.members}
    parts: dict[ProcessId, list[tuple[ObservedMember, MemberTasks, dict[TaskId, int]]]] = {}
    unknown = []
    for raw in described.members:
        member = seen[raw.member_id]
        process = process_of(member.streams)
        if process is None:
            unknown.append(Unknown(what=f"member {member.id}", cause="the brokers do not name its process"))
            continue
        assigned = raw.assignment
        tasks = MemberTasks(
            active=_tasks(assigned.active_tasks, numbers),
            standby=_tasks((*assigned.standby_tasks, *assigned.warmup_tasks), numbers),
        )
        sums = {
            TaskId(subtopology=numbers[str(offset.subtopology_id)], partition=int(offset.partition)): int(offset.offset)
            for offset in raw.task_offsets
        }
        parts.setdefault(process, []).append((member, tasks, sums))
    return Instances(
        clients=tuple(_joined(process, found) for process, found in sorted(parts.items())),
        sources=group.tasks,
        changelogs={
            numbers[str(part.subtopology_id)]: tuple(sorted(str(topic.name) for topic in part.state_changelog_topics))
            for part in subtopologies
        },
        unknown=tuple(unknown),
    )


def _tasks(assigned: Iterable[Any], numbers: Mapping[str, int]) -> frozenset[TaskId]:
    return frozenset(
        TaskId(subtopology=numbers[str(one.subtopology_id)], partition=int(number))
        for one in assigned
        for number in one.partitions
    )
