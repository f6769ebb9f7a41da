"""KIP-924: how an assignor's answer is handled, for each possible error."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from samerack.assignors.streams.assignment import KafkaStreamsAssignment, assignment_of
from samerack.assignors.streams.guard import decide
from samerack.assignors.streams.model import ApplicationState, TaskAssignmentError, task_id
from samerack.assignors.streams.plugin import (
    AssignmentError,
    GroupAssignment,
    GroupSubscription,
    TaskAssignment,
    validate_task_assignment,
)
from tests.unit.assignors.streams.applications import actives, application, process, standbys, tasks

STATEFUL, STATELESS, UNKNOWN = map(task_id, ("0_0", "1_0", "9_9"))
SUBSCRIPTION = GroupSubscription(topics={"consumer-1": ("source",)})
FIRST, SECOND = process(1), process(2)


@dataclass
class Scripted:
    """An assignor that returns a given answer and records the calls of its callback."""

    answer: tuple[KafkaStreamsAssignment, ...] | TaskAssignmentError
    heard: list[tuple[GroupAssignment, GroupSubscription, AssignmentError]] = field(default_factory=list)

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Return the given answer or raise the given error."""
        assert application_state.all_tasks
        if isinstance(self.answer, TaskAssignmentError):
            raise self.answer
        return TaskAssignment(assignment=self.answer)

    def on_assignment_computed(
        self, assignment: GroupAssignment, subscription: GroupSubscription, error: AssignmentError
    ) -> None:
        """Record the call."""
        self.heard.append((assignment, subscription, error))


def state() -> ApplicationState:
    """A stateful and a stateless task on the first client, and a standby on the second."""
    return application(tasks("0_0", "1_0"), {"active": "0_0 1_0"}, {"standby": "0_0"})


def test_a_valid_answer_holds_and_is_heard_of() -> None:
    """The assignor's callback gets the source partitions of each consumer."""
    answer = (assignment_of(FIRST, standby=[STATEFUL]), assignment_of(SECOND, active=[STATEFUL, STATELESS]))
    assignor = Scripted(answer)
    decision = decide(assignor, state(), SUBSCRIPTION, now_ms=3)
    assert decision.assignment.assignment == answer
    assert decision.error is AssignmentError.NONE
    partitions = {"consumer-1": (), "consumer-2": (("source", 0), ("source", 0))}
    assert assignor.heard == [(GroupAssignment(partitions=partitions), SUBSCRIPTION, AssignmentError.NONE)]


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
def test_an_invalid_answer_is_reported_and_everything_stays(error: AssignmentError) -> None:
    """The callback gets the error with an empty assignment; clients keep their tasks and rebalance again at once."""
    assignor = Scripted(INVALID[error])
    decision = decide(assignor, state(), SUBSCRIPTION, now_ms=3)
    assert decision.error is error
    assert assignor.heard == [(GroupAssignment(), SUBSCRIPTION, error)]
    assert actives(decision.assignment) == ["0_0 1_0", ""]
    assert standbys(decision.assignment) == ["", "0_0"]
    assert [assignment.followup_rebalance_deadline for assignment in decision.assignment.assignment] == [3, 3]
    assert validate_task_assignment(state(), decision.assignment) is AssignmentError.NONE


def test_an_assignor_that_cannot_decide_now_keeps_everything_and_made_no_error() -> None:
    """`TaskAssignmentError` gives the previous assignment with an immediate follow-up; no error is reported."""
    assignor = Scripted(TaskAssignmentError("no lags"))
    decision = decide(assignor, state(), SUBSCRIPTION, now_ms=3)
    assert decision.error is AssignmentError.NONE
    assert actives(decision.assignment) == ["0_0 1_0", ""]
    assert [assignment.followup_rebalance_deadline for assignment in decision.assignment.assignment] == [3, 3]
    assert [heard[2] for heard in assignor.heard] == [AssignmentError.NONE]
