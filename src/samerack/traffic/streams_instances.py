"""The clients of a live Kafka Streams application with tasks and state, on both protocols, as one type.

On the classic protocol each thread is a member: what it was assigned is of the last rebalance, and what it reports
about its state is of its last join. KIP-1071 members are described as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from samerack.assignors.streams.application import ProcessId, TaskId
from samerack.protocol.consumer import decode_subscription
from samerack.protocol.errors import ProtocolError
from samerack.protocol.streams import OFFSETS_SINCE, decode_subscription_info
from samerack.protocol.streams_values import LATEST_OFFSET, MAX_VERSION
from samerack.traffic import streams_tasks
from samerack.traffic.groups import ObservedGroup
from samerack.traffic.snapshot import ObservedMember
from samerack.traffic.streams_client import process_of
from samerack.traffic.streams_tasks import MemberTasks, Sources


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
            tasks = streams_tasks.of_member(bytes(raw.member_assignment))
        except ProtocolError as error:
            unknown.append(Unknown(what=f"member {member.id}", cause=str(error)))
            continue
        sums = {
            streams_tasks.named(task): offsets
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
    subtopologies = streams_tasks.subtopologies_of(described)
    numbers = streams_tasks.numbers_of(str(part.subtopology_id) for part in subtopologies)
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
            TaskId(subtopology=numbers[str(one.subtopology_id)], partition=int(one.partition)): int(one.offset)
            for one in raw.task_offsets
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
