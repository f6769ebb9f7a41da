"""Validates an assignor's answer, replaces it if it is invalid, and converts it for consumers (KIP-924)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.lifecycle import assign_or_keep, keep_previous
from samerack.assignors.streams.plugin import AssignmentError, GroupAssignment, TaskAssignment, validate_task_assignment

if TYPE_CHECKING:
    from samerack.assignors.streams.model import ApplicationState
    from samerack.assignors.streams.plugin import GroupSubscription, TaskAssignor


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The assignment to use, and the error of the assignor's answer.

    Attributes:
        assignment: the answer, or if it is invalid the previous assignment with a follow-up rebalance at once.
        error: the error; `NONE` for a valid answer.
    """

    assignment: TaskAssignment
    error: AssignmentError


def decide(
    assignor: TaskAssignor, application_state: ApplicationState, subscription: GroupSubscription, *, now_ms: int
) -> Decision:
    """Calls an assignor, validates its answer, and reports the result to it.

    If the assignor cannot decide now (`TaskAssignmentError`), the previous assignment is kept, which is not an error.
    An invalid answer is reported with an empty group assignment, as the KIP says. The KIP then ends the stream thread;
    here the previous assignment stays and a follow-up rebalance starts at once, so that the application continues.

    Source: KIP-924, "Public Interfaces" (`TaskAssignor`).

    Args:
        assignor: the plug-in.
        application_state: the application.
        subscription: subscriptions of the consumers, passed on to the assignor.
        now_ms: the current time in ms since 1970.
    """
    answer = assign_or_keep(assignor, application_state, now_ms=now_ms)
    error = validate_task_assignment(application_state, answer)
    if error is AssignmentError.NONE:
        assignor.on_assignment_computed(group_assignment(application_state, answer), subscription, error)
        return Decision(assignment=answer, error=error)
    assignor.on_assignment_computed(GroupAssignment(), subscription, error)
    return Decision(assignment=keep_previous(application_state, now_ms=now_ms), error=error)


def group_assignment(application_state: ApplicationState, assignment: TaskAssignment) -> GroupAssignment:
    """Returns each consumer's source partitions: a client's active tasks, ascending, go to its consumers in turn."""
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
