"""The assignment before an assignor runs, and what its answer gives to consumers (KIP-924)."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType, assignment_of
from samerack.assignors.streams.plugin import GroupAssignment

if TYPE_CHECKING:
    from samerack.assignors.streams.model import ApplicationState, ProcessId
    from samerack.assignors.streams.plugin import TaskAssignment


def identity_assignment(application_state: ApplicationState) -> dict[ProcessId, KafkaStreamsAssignment]:
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
