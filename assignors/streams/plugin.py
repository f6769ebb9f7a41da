"""KIP-924's `TaskAssignor`: its answer, the previous assignment, errors of an answer, what consumers get of it.

samerack's own assignors are functions from `Request` to `Outcome`, which say more than the interface has room for; what
a user's class has to offer is in `agent/streams/own_assignors.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from itertools import cycle
from typing import TYPE_CHECKING

from samerack.assignors.streams.assignment import KafkaStreamsAssignment, Plan, TaskType, assignment_of

if TYPE_CHECKING:
    from samerack.assignors.streams.active import Costs
    from samerack.assignors.streams.application import ApplicationState, ProcessId, TaskId
    from samerack.assignors.streams.optimize import Obstacle


class AssignmentError(Enum):
    """The errors of an assignment (KIP-924, "Public Interfaces", `TaskAssignor.AssignmentError`)."""

    NONE = "NONE"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"
    ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS = "ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS"
    INVALID_STANDBY_TASK = "INVALID_STANDBY_TASK"
    MISSING_PROCESS_ID = "MISSING_PROCESS_ID"
    UNKNOWN_PROCESS_ID = "UNKNOWN_PROCESS_ID"
    UNKNOWN_TASK_ID = "UNKNOWN_TASK_ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """An assignor's answer: one assignment for every client, including those without tasks."""

    assignment: tuple[KafkaStreamsAssignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSubscription:
    """The subscriptions of the consumers: topics by consumer."""

    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignment:
    """The assignment of the consumers: (topic, partition) pairs by consumer; empty if the answer was invalid."""

    partitions: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The input of an assignor.

    Attributes:
        state: the application, with lags if the assignor needs them.
        now_ms: the current time in ms since 1970, from which follow-up deadlines are counted.
        must_preserve_active: `sticky` only: actives stay where they were, whatever the balance.
        compatible: Kafka's behaviour where Kafka deviates from the KIPs.
    """

    state: ApplicationState
    now_ms: int = 0
    must_preserve_active: bool = False
    compatible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an assignor.

    Attributes:
        assignment: the answer.
        probing_rebalance: whether another rebalance must follow, because tasks are not on their targets.
        obstacle: why racks did not count, or None.
        warnings: warnings for the user, such as tags that contradict racks.
        costs: the costs of stateful tasks, configured or the assignor's own; None if it uses no costs.
    """

    assignment: TaskAssignment
    probing_rebalance: bool = False
    obstacle: Obstacle | None = None
    warnings: tuple[str, ...] = ()
    costs: Costs | None = None


def identity_assignment(application_state: ApplicationState) -> Plan:
    """Return the previous assignment of every client (KIP-924, `TaskAssignmentUtils.identityAssignment`).

    A task that a client reports as active and as standby stays active there.
    """
    return {
        process: assignment_of(
            process,
            active=state.previous_active_tasks,
            standby=state.previous_standby_tasks - state.previous_active_tasks,
        )
        for process, state in application_state.states.items()
    }


def validate_task_assignment(application_state: ApplicationState, task_assignment: TaskAssignment) -> AssignmentError:
    """Return the first error of an answer, or `NONE`; the order of the checks is Kafka's (`TaskAssignmentUtils`).

    In addition to Kafka it detects one client in two assignments with a task in both roles, an error that the KIP lists
    and Kafka does not detect.
    """
    return (
        _error_of_tasks(application_state, task_assignment)
        or _error_of_standbys(application_state, task_assignment)
        or _error_of_clients(application_state, task_assignment)
        or AssignmentError.NONE
    )


def _error_of_tasks(application_state: ApplicationState, answer: TaskAssignment) -> AssignmentError | None:
    known = application_state.all_tasks.keys()
    active: set[TaskId] = set()
    earlier: dict[ProcessId, list[KafkaStreamsAssignment]] = {}
    for assignment in answer.assignment:
        same_client = earlier.setdefault(assignment.process_id, [])
        mine = assignment.of_type(TaskType.ACTIVE)
        if same_client or not (known >= assignment.tasks.keys() and active.isdisjoint(mine)):
            error = _first_error(assignment, known, active, same_client)
            if error is not None:
                return error
        active |= mine
        same_client.append(assignment)
    return None


def _first_error(
    assignment: KafkaStreamsAssignment,
    known: AbstractSet[TaskId],
    active: AbstractSet[TaskId],
    same_client: Sequence[KafkaStreamsAssignment],
) -> AssignmentError | None:
    """Return the error of the first task that has one; `active` and `same_client` are of earlier assignments."""
    for task, role in assignment.tasks.items():
        if task not in known:
            return AssignmentError.UNKNOWN_TASK_ID
        if role is TaskType.ACTIVE and task in active:
            return AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES
        if any(other.tasks.get(task, role) is not role for other in same_client):
            return AssignmentError.ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS
    return None


def _error_of_standbys(application_state: ApplicationState, answer: TaskAssignment) -> AssignmentError | None:
    stateless = {task for task, info in application_state.all_tasks.items() if not info.is_stateful}
    are_valid = all(stateless.isdisjoint(one.of_type(TaskType.STANDBY)) for one in answer.assignment)
    return None if are_valid else AssignmentError.INVALID_STANDBY_TASK


def _error_of_clients(application_state: ApplicationState, answer: TaskAssignment) -> AssignmentError | None:
    present = {assignment.process_id for assignment in answer.assignment}
    if application_state.states.keys() - present:
        return AssignmentError.MISSING_PROCESS_ID
    if present - application_state.states.keys():
        return AssignmentError.UNKNOWN_PROCESS_ID
    return None


def group_assignment(application_state: ApplicationState, assignment: TaskAssignment) -> GroupAssignment:
    """Return each consumer's source partitions: a client's active tasks, ascending, go to its consumers in turn."""
    partitions: dict[str, list[tuple[str, int]]] = {
        consumer: [] for client in application_state.states.values() for consumer in client.consumer_client_ids
    }
    for client in assignment.assignment:
        consumers = application_state.states[client.process_id].consumer_client_ids
        for task, consumer in zip(sorted(client.of_type(TaskType.ACTIVE)), cycle(consumers), strict=False):
            partitions[consumer] += [
                (partition.topic, partition.partition)
                for partition in application_state.all_tasks[task].topic_partitions
                if partition.is_source
            ]
    return GroupAssignment(partitions={consumer: tuple(sorted(given)) for consumer, given in partitions.items()})
