"""The output of a Streams task assignor: the tasks of each client, and its next rebalance, as KIP-924 models them.

Names follow KIP-924 ("Public Interfaces"). Values never change; `assign` and `remove` return new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from samerack.assignors.problem import AssignmentError as InvalidError
from samerack.assignors.streams.application import ProcessId, TaskId

if TYPE_CHECKING:
    from collections.abc import Iterable


class TaskType(Enum):
    """The role of a client for a task."""

    ACTIVE = "ACTIVE"
    STANDBY = "STANDBY"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTask:
    """A task in one of its roles."""

    id: TaskId
    type: TaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStreamsAssignment:
    """The assignment of one client (KIP-924, `KafkaStreamsAssignment`).

    Attributes:
        process_id: the client.
        tasks: role of each of its tasks; a task can have only one role.
        followup_rebalance_deadline: when it must request another rebalance, in ms since 1970; None for never.
    """

    process_id: ProcessId
    tasks: Mapping[TaskId, TaskType] = field(default_factory=dict)
    followup_rebalance_deadline: int | None = None
    _by_type: tuple[frozenset[TaskId], frozenset[TaskId]] = field(init=False, repr=False, compare=False)
    """Active tasks and standbys, split once: assignors, their checks and the bill ask for them a dozen times."""

    def __post_init__(self) -> None:
        """Make a private copy, so that the caller cannot change it."""
        tasks = self.tasks if isinstance(self.tasks, MappingProxyType) else MappingProxyType(dict(self.tasks))
        active = frozenset([task for task, role in tasks.items() if role is TaskType.ACTIVE])
        object.__setattr__(self, "tasks", tasks)
        object.__setattr__(self, "_by_type", (active, frozenset(tasks.keys() - active)))

    def of_type(self, kind: TaskType) -> frozenset[TaskId]:
        """Return its tasks of one kind."""
        return self._by_type[kind is TaskType.STANDBY]

    def assign(self, *added: AssignedTask) -> KafkaStreamsAssignment:
        """Return the assignment with more tasks.

        Raises:
            AssignmentError: It already has such a task in the other role, which Kafka's map would silently overwrite.
        """
        tasks = dict(self.tasks)
        for task in added:
            _add(self.process_id, tasks, task.id, task.type)
        return replace(self, tasks=tasks)

    def remove(self, *removed: AssignedTask) -> KafkaStreamsAssignment:
        """Return the assignment without these tasks; a task that it has in the other role stays."""
        gone = {task.id: task.type for task in removed}
        return replace(self, tasks={task: role for task, role in self.tasks.items() if gone.get(task) is not role})

    def with_followup_rebalance(self, deadline: int | None) -> KafkaStreamsAssignment:
        """Return the assignment with another deadline, in ms since 1970."""
        return replace(self, followup_rebalance_deadline=deadline)


Assignments: TypeAlias = Mapping[ProcessId, KafkaStreamsAssignment]
"""The assignments of clients, for readers."""
Plan: TypeAlias = dict[ProcessId, KafkaStreamsAssignment]
"""The assignments of all clients, for who makes them."""


def assignment_of(
    process_id: ProcessId, *, active: Iterable[TaskId] = (), standby: Iterable[TaskId] = ()
) -> KafkaStreamsAssignment:
    """Make an assignment of these tasks.

    Raises:
        AssignmentError: A task is in both.
    """
    tasks: dict[TaskId, Any] = dict.fromkeys(active, TaskType.ACTIVE)
    standbys = dict.fromkeys(standby, TaskType.STANDBY)
    if not tasks.keys().isdisjoint(standbys):
        for task, role in standbys.items():
            _add(process_id, tasks, task, role)
    tasks |= standbys
    return KafkaStreamsAssignment(process_id=process_id, tasks=MappingProxyType(tasks))


def _add(process_id: ProcessId, tasks: dict[TaskId, TaskType], task: TaskId, role: TaskType) -> None:
    if tasks.setdefault(task, role) is not role:
        raise InvalidError(
            f"client {process_id} has task {task} as {tasks[task].value}; remove it before it becomes {role.value}"
        )
