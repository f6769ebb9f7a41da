"""The assignment that changes nothing, and its use if an assignor cannot decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samerack.assignors.streams.assignment import KafkaStreamsAssignment, assignment_of
from samerack.assignors.streams.model import TaskAssignmentError
from samerack.assignors.streams.plugin import TaskAssignment

if TYPE_CHECKING:
    from samerack.assignors.streams.model import ApplicationState, ProcessId, TaskId
    from samerack.assignors.streams.plugin import TaskAssignor


def identity_assignment(application_state: ApplicationState) -> dict[ProcessId, KafkaStreamsAssignment]:
    """Returns the previous assignment of every client (KIP-924, `TaskAssignmentUtils.identityAssignment`).

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


def assign_or_keep(assignor: TaskAssignor, application_state: ApplicationState, *, now_ms: int) -> TaskAssignment:
    """Returns the assignor's answer, or `keep_previous` if the assignor cannot decide now.

    Source: KIP-924, "Public Interfaces" (`TaskAssignmentException`).

    Args:
        assignor: the plug-in.
        application_state: the application.
        now_ms: the current time in ms since 1970, the deadline of the follow-up rebalance.
    """
    try:
        return assignor.assign(application_state)
    except TaskAssignmentError:
        return keep_previous(application_state, now_ms=now_ms)


def keep_previous(application_state: ApplicationState, *, now_ms: int) -> TaskAssignment:
    """Returns the previous assignment of every client, with a follow-up rebalance at once.

    To make the answer valid, the first client keeps a task that several clients report as active, and tasks that no
    longer exist are removed.
    """
    return TaskAssignment(
        assignment=tuple(assignment.with_followup_rebalance(now_ms) for assignment in _still_valid(application_state))
    )


def _still_valid(application_state: ApplicationState) -> list[KafkaStreamsAssignment]:
    known = application_state.all_tasks
    stateful = {task for task, info in known.items() if info.is_stateful}
    active_already: set[TaskId] = set()
    kept = []
    for assignment in identity_assignment(application_state).values():
        state = application_state.states[assignment.process_id]
        active = (state.previous_active_tasks & known.keys()) - active_already
        active_already |= active
        standby = (state.previous_standby_tasks & stateful) - active
        kept.append(assignment_of(assignment.process_id, active=active, standby=standby))
    return kept
