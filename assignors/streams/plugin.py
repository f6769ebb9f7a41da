"""How an assignor of tasks is called and its answer judged: KIP-924's `TaskAssignor` and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from assignors.streams.model import TaskType

if TYPE_CHECKING:
    from assignors.streams.model import ApplicationState, KafkaStreamsAssignment, ProcessId, TaskId


class AssignmentError(Enum):
    """What can be wrong with an assignment (KIP-924, "Public Interfaces", `TaskAssignor.AssignmentError`)."""

    NONE = "NONE"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"
    ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS = "ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS"
    INVALID_STANDBY_TASK = "INVALID_STANDBY_TASK"
    MISSING_PROCESS_ID = "MISSING_PROCESS_ID"
    UNKNOWN_PROCESS_ID = "UNKNOWN_PROCESS_ID"
    UNKNOWN_TASK_ID = "UNKNOWN_TASK_ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """An assignor's answer: one assignment for every client, also for those that get nothing."""

    assignment: tuple[KafkaStreamsAssignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSubscription:
    """What consumers subscribed to: topics by consumer."""

    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignment:
    """What consumers are sent: (topic, partition) pairs by consumer; empty if the answer could not be made out."""

    partitions: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


class TaskAssignor(Protocol):
    """KIP-924's plug-in. `assign` depends on its argument alone."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Decide which client runs and which keeps copies of which task.

        Raises:
            TaskAssignmentError: Not now: keep the previous assignment and rebalance again at once.
        """
        ...

    def on_assignment_computed(
        self, assignment: GroupAssignment, subscription: GroupSubscription, error: AssignmentError
    ) -> None:
        """Hear what was made of the answer; not `NONE` means that nobody gets it."""
        ...


def validate_task_assignment(application_state: ApplicationState, task_assignment: TaskAssignment) -> AssignmentError:
    """The first error of an answer, `NONE` if there is none, looked for in Kafka's order (`TaskAssignmentUtils`).

    Besides what Kafka looks for: one client in two assignments with a task in both roles, which the document names
    and Kafka does not detect.
    """
    return (
        _error_of_tasks(application_state, task_assignment)
        or _error_of_standbys(application_state, task_assignment)
        or _error_of_clients(application_state, task_assignment)
        or AssignmentError.NONE
    )


def _error_of_tasks(application_state: ApplicationState, answer: TaskAssignment) -> AssignmentError | None:
    active: set[TaskId] = set()
    roles: dict[tuple[ProcessId, TaskId], TaskType] = {}
    for assignment in answer.assignment:
        for task, role in assignment.tasks.items():
            if task not in application_state.all_tasks:
                return AssignmentError.UNKNOWN_TASK_ID
            if role is TaskType.ACTIVE and task in active:
                return AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES
            if role is TaskType.ACTIVE:
                active.add(task)
            if roles.setdefault((assignment.process_id, task), role) is not role:
                return AssignmentError.ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS
    return None


def _error_of_standbys(application_state: ApplicationState, answer: TaskAssignment) -> AssignmentError | None:
    for assignment in answer.assignment:
        for task, role in assignment.tasks.items():
            if role is TaskType.STANDBY and not application_state.all_tasks[task].is_stateful:
                return AssignmentError.INVALID_STANDBY_TASK
    return None


def _error_of_clients(application_state: ApplicationState, answer: TaskAssignment) -> AssignmentError | None:
    present = {assignment.process_id for assignment in answer.assignment}
    if application_state.states.keys() - present:
        return AssignmentError.MISSING_PROCESS_ID
    if present - application_state.states.keys():
        return AssignmentError.UNKNOWN_PROCESS_ID
    return None
