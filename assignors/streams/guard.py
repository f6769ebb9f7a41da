"""From an assignor's answer to what consumers are sent: judged, and replaced where it is invalid (KIP-924)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from assignors.streams.lifecycle import assign_or_keep, keep_previous
from assignors.streams.model import TaskType
from assignors.streams.plugin import AssignmentError, GroupAssignment, TaskAssignment, validate_task_assignment

if TYPE_CHECKING:
    from assignors.streams.model import ApplicationState
    from assignors.streams.plugin import GroupSubscription, TaskAssignor


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What holds, and what was wrong with the assignor's answer.

    Attributes:
        assignment: the answer, or what every client had with a follow-up at once if the answer is invalid.
        error: what was wrong; `NONE` for a valid answer.
    """

    assignment: TaskAssignment
    error: AssignmentError


def decide(
    assignor: TaskAssignor, application_state: ApplicationState, subscription: GroupSubscription, *, now_ms: int
) -> Decision:
    """Ask an assignor, judge its answer, and tell it what came of it.

    An assignor that cannot decide now (`TaskAssignmentError`) keeps what was, which is no error. An invalid answer is
    reported with an empty group assignment, as the document says. The document then ends the stream thread; here the
    previous assignment stays and a follow-up comes at once, so that the application goes on.

    Source: KIP-924, "Public Interfaces" (`TaskAssignor`).

    Args:
        assignor: the plug-in.
        application_state: the application.
        subscription: what consumers subscribed to, for the assignor to hear.
        now_ms: the present in ms since 1970.
    """
    answer = assign_or_keep(assignor, application_state, now_ms=now_ms)
    error = validate_task_assignment(application_state, answer)
    if error is AssignmentError.NONE:
        assignor.on_assignment_computed(group_assignment(application_state, answer), subscription, error)
        return Decision(assignment=answer, error=error)
    assignor.on_assignment_computed(GroupAssignment(), subscription, error)
    return Decision(assignment=keep_previous(application_state, now_ms=now_ms), error=error)


def group_assignment(application_state: ApplicationState, assignment: TaskAssignment) -> GroupAssignment:
    """The source partitions of each consumer: a client's active tasks, ascending, go round its consumers."""
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
