"""KIP-924: each possible error of an assignor's answer, and what consumers get of a valid one."""

from __future__ import annotations

import pytest

from samerack.assignors.streams.application import ApplicationState, task_id
from samerack.assignors.streams.assignment import assignment_of
from samerack.assignors.streams.plugin import (
    AssignmentError,
    GroupAssignment,
    TaskAssignment,
    group_assignment,
    validate_task_assignment,
)
from tests.unit.assignors.streams.applications import application, process, tasks

STATEFUL, STATELESS, UNKNOWN = map(task_id, ("0_0", "1_0", "9_9"))
FIRST, SECOND = process(1), process(2)


def state() -> ApplicationState:
    """A stateful and a stateless task on the first client, and a standby on the second."""
    return application(tasks("0_0", "1_0"), {"active": "0_0 1_0"}, {"standby": "0_0"})


def test_a_valid_answer_gives_consumers_source_partitions() -> None:
    """Each consumer gets those of its client's active tasks."""
    answer = TaskAssignment(
        assignment=(assignment_of(FIRST, standby=[STATEFUL]), assignment_of(SECOND, active=[STATEFUL, STATELESS]))
    )
    assert validate_task_assignment(state(), answer) is AssignmentError.NONE
    partitions = {"consumer-1": (), "consumer-2": (("source", 0), ("source", 0))}
    assert group_assignment(state(), answer) == GroupAssignment(partitions=partitions)


WHOLE = assignment_of(FIRST, active=[STATEFUL, STATELESS])
INVALID = {
    AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES: (WHOLE, assignment_of(SECOND, active=[STATEFUL])),
    AssignmentError.ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS: (
        *(WHOLE, assignment_of(FIRST, standby=[STATEFUL]), assignment_of(SECOND)),
    ),
    AssignmentError.INVALID_STANDBY_TASK: (WHOLE, assignment_of(SECOND, standby=[STATELESS])),
    AssignmentError.MISSING_PROCESS_ID: (WHOLE,),
    AssignmentError.UNKNOWN_PROCESS_ID: (WHOLE, assignment_of(SECOND), assignment_of(process(3))),
    AssignmentError.UNKNOWN_TASK_ID: (assignment_of(FIRST, active=[UNKNOWN]), assignment_of(SECOND)),
}


@pytest.mark.parametrize("error", [error for error in AssignmentError if error is not AssignmentError.NONE])
def test_an_invalid_answer_has_its_error(error: AssignmentError) -> None:
    """Each error of KIP-924 is found."""
    assert validate_task_assignment(state(), TaskAssignment(assignment=INVALID[error])) is error
