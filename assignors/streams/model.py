"""What a Streams task assignor is told and what it answers: KIP-924's model as frozen values.

Names follow KIP-924 ("Public Interfaces"); a value never changes, `assign` and `remove` give a new one. Assignors that
compute much do it on arrays (`assignors.streams.arrays`) and come back here for the edges.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import total_ordering
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from assignors.model import AssignmentError as InvalidError
from assignors.streams.configs import AssignmentConfigs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

LATEST_OFFSET: Final = -2
"""The "lag" of a task that ran actively on the client (`Task.LATEST_OFFSET`)."""

UNKNOWN_OFFSET_SUM: Final = -3
"""The "lag" of a task whose offsets the client could not tell."""

_TASK_ID: Final = re.compile(r"(?:(.+)__)?(\d+)_(\d+)")
_SIGN: Final = 1 << 63

Key = TypeVar("Key")
Value = TypeVar("Value")


def _frozen(values: Mapping[Key, Value]) -> Mapping[Key, Value]:
    return values if isinstance(values, MappingProxyType) else MappingProxyType(dict(values))


class TaskAssignmentError(InvalidError):
    """An assignor could not decide now: the previous assignment stays and a follow-up rebalance comes at once."""


class LagsNotComputedError(InvalidError):
    """Lags were asked of a state that was made without them (KIP-924, `KafkaStreamsState.lagFor`)."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TaskId:
    """A task: partition `partition` of subtopology `subtopology`; `topology` is "" unless the topology has a name."""

    topology: str = ""
    subtopology: int
    partition: int

    def __str__(self) -> str:
        prefix = f"{self.topology}__" if self.topology else ""
        return f"{prefix}{self.subtopology}_{self.partition}"


def task_id(text: str) -> TaskId:
    """The task that Kafka writes as `text`, such as `0_1` or `name__0_1`.

    Raises:
        AssignmentError: It is no task id.
    """
    match = _TASK_ID.fullmatch(text)
    if match is None:
        raise InvalidError(f"task id {text!r} is none; give subtopology and partition, such as 0_1")
    return TaskId(topology=match[1] or "", subtopology=int(match[2]), partition=int(match[3]))


@total_ordering
@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A Kafka Streams client. Ordered as Java orders UUIDs: by two signed 64-bit halves."""

    uuid: UUID

    def __lt__(self, other: ProcessId) -> bool:
        return self.order < other.order

    @property
    def order(self) -> int:
        """A sort key that puts ids where Java puts them."""
        low = 1 << 64
        return (self.uuid.int // low ^ _SIGN) * low + (self.uuid.int % low ^ _SIGN)

    def __str__(self) -> str:
        return str(self.uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTopicPartition:
    """A topic partition that a task reads or writes.

    Attributes:
        topic: its topic.
        partition: its number.
        is_source: the task reads it; a source topic that serves as changelog is both.
        is_changelog: it holds changes of the task's state.
        racks: racks of its replicas; None where nobody could tell.
    """

    topic: str
    partition: int
    is_source: bool = True
    is_changelog: bool = False
    racks: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """A task that must be assigned: whether it has state, its stores, and every partition of it."""

    id: TaskId
    is_stateful: bool = False
    state_store_names: frozenset[str] = frozenset()
    topic_partitions: tuple[TaskTopicPartition, ...] = ()

    @property
    def is_changelogged(self) -> bool:
        """Whether it has a changelog: only such tasks get standbys."""
        return any(partition.is_changelog for partition in self.topic_partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStreamsState:
    """A Kafka Streams client (KIP-924, `KafkaStreamsState`).

    Attributes:
        process_id: who it is.
        num_processing_threads: its capacity relative to others, at least 1.
        consumer_client_ids: its consumers, ascending.
        previous_active_tasks: what it ran,
        previous_standby_tasks: and what it kept copies of, since the last rebalance.
        previous_tasks_by_consumer: the same, both kinds, by consumer.
        lags: [task] end offsets less own offsets, summed over the logged stores; the whole sum of end offsets where the
            client has nothing of it, LATEST_OFFSET where it ran it. None if they were not computed.
        host_info: `application.server`, or None.
        client_tags: `client.tag.*` (KIP-708).
        rack_id: `client.rack`, or None.
        contradicting_racks: the racks of its consumers where they are not one; then it has no `rack_id`.
    """

    process_id: ProcessId
    num_processing_threads: int = 1
    consumer_client_ids: tuple[str, ...] = ()
    previous_active_tasks: frozenset[TaskId] = frozenset()
    previous_standby_tasks: frozenset[TaskId] = frozenset()
    previous_tasks_by_consumer: Mapping[str, frozenset[TaskId]] = field(default_factory=dict)
    lags: Mapping[TaskId, int] | None = None
    host_info: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    rack_id: str | None = None
    contradicting_racks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a client without threads."""
        if self.num_processing_threads < 1:
            raise InvalidError(f"client {self.process_id} has {self.num_processing_threads} threads; it needs one")

    def stateful_tasks_to_lag_sums(self) -> Mapping[TaskId, int]:
        """Lags of all stateful tasks.

        Raises:
            LagsNotComputedError: They were not asked for.
        """
        if self.lags is None:
            raise LagsNotComputedError(
                f"lags of client {self.process_id} were not computed; ask kafka_streams_states(compute_task_lags=True)"
            )
        return self.lags

    def lag_for(self, task: TaskId) -> int:
        """The lag of one stateful task.

        Raises:
            LagsNotComputedError: Lags were not asked for.
            AssignmentError: There is no lag for this task: it has no state, or does not exist.
        """
        lags = self.stateful_tasks_to_lag_sums()
        if task not in lags:
            raise InvalidError(f"client {self.process_id} has no lag for task {task}; only stateful tasks have one")
        return lags[task]

    def prev_tasks_by_lag(self, consumer: str) -> tuple[TaskId, ...]:
        """What the consumer had before, the least lag first, without tasks that no longer exist.

        Raises:
            LagsNotComputedError: Lags were not asked for.
        """
        lags = self.stateful_tasks_to_lag_sums()
        had = self.previous_tasks_by_consumer.get(consumer, frozenset())
        return tuple(sorted((task for task in had if task in lags), key=lambda task: (lags[task], task)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationState:
    """All that a rebalance knows (KIP-924, `ApplicationState`): clients, tasks and settings."""

    states: Mapping[ProcessId, KafkaStreamsState]
    all_tasks: Mapping[TaskId, TaskInfo]
    assignment_configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)

    def __post_init__(self) -> None:
        """Keep clients and tasks in ascending order, so that equal applications are decided alike."""
        states = {process: self.states[process] for process in sorted(self.states, key=lambda process: process.order)}
        object.__setattr__(self, "states", MappingProxyType(states))
        object.__setattr__(
            self, "all_tasks", MappingProxyType({task: self.all_tasks[task] for task in sorted(self.all_tasks)})
        )

    def kafka_streams_states(self, *, compute_task_lags: bool) -> Mapping[ProcessId, KafkaStreamsState]:
        """The clients, with lags only if asked.

        Raises:
            TaskAssignmentError: Lags are wanted and could not be had; let it pass to retry the rebalance.
        """
        if not compute_task_lags:
            return {process: replace(state, lags=None) for process, state in self.states.items()}
        for process, state in self.states.items():
            if state.lags is None:
                raise TaskAssignmentError(f"lags of client {process} could not be computed; the rebalance is retried")
        return self.states


class TaskType(Enum):
    """What a client does with a task."""

    ACTIVE = "ACTIVE"
    STANDBY = "STANDBY"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTask:
    """A task in one of its roles."""

    id: TaskId
    type: TaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStreamsAssignment:
    """What one client gets (KIP-924, `KafkaStreamsAssignment`).

    Attributes:
        process_id: the client.
        tasks: role of each of its tasks, so a task can have one role only.
        followup_rebalance_deadline: when it is to ask for another rebalance, in ms since 1970; None for never.
    """

    process_id: ProcessId
    tasks: Mapping[TaskId, TaskType] = field(default_factory=dict)
    followup_rebalance_deadline: int | None = None

    def __post_init__(self) -> None:
        """Take a private copy, so that nobody else can change it."""
        object.__setattr__(self, "tasks", _frozen(self.tasks))

    def of_type(self, kind: TaskType) -> frozenset[TaskId]:
        """Its tasks of one kind."""
        return frozenset(task for task, role in self.tasks.items() if role is kind)

    def assign(self, *added: AssignedTask) -> KafkaStreamsAssignment:
        """The same with more tasks.

        Raises:
            AssignmentError: It already has such a task in the other role, which Kafka's map would lose without a word.
        """
        tasks = dict(self.tasks)
        for task in added:
            if tasks.setdefault(task.id, task.type) is not task.type:
                raise InvalidError(
                    f"client {self.process_id} has task {task.id} as {tasks[task.id].value}; remove it before it "
                    f"becomes {task.type.value}"
                )
        return replace(self, tasks=tasks)

    def remove(self, *removed: AssignedTask) -> KafkaStreamsAssignment:
        """The same without these tasks; a task that it does not have in that role stays as it is."""
        gone = {task.id: task.type for task in removed}
        return replace(self, tasks={task: role for task, role in self.tasks.items() if gone.get(task) is not role})

    def with_followup_rebalance(self, deadline: int | None) -> KafkaStreamsAssignment:
        """The same with another deadline, in ms since 1970."""
        return replace(self, followup_rebalance_deadline=deadline)


def assignment_of(
    process_id: ProcessId, *, active: Iterable[TaskId] = (), standby: Iterable[TaskId] = ()
) -> KafkaStreamsAssignment:
    """An assignment of these tasks.

    Raises:
        AssignmentError: A task is in both.
    """
    tasks: dict[TaskId, Any] = dict.fromkeys(active, TaskType.ACTIVE)
    made = KafkaStreamsAssignment(process_id=process_id, tasks=tasks)
    return made.assign(*(AssignedTask(id=task, type=TaskType.STANDBY) for task in standby))
