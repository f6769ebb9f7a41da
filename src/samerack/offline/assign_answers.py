"""Answers assignment questions: runs the assignor, checks its plan, and returns the plan as a JSON object."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from samerack.assignors.check import check
from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.assignors.evaluate import evaluate
from samerack.assignors.model import NOBODY, AssignmentError, Int32Array, Problem
from samerack.assignors.transfer import transferring, withhold
from samerack.offline.assign_json import RACKS_SINCE, Question, options_of, parse, problem_of
from samerack.offline.json_lines import Answer, QuestionError, answered, typical
from samerack.planning.deadline import FALL_BACK, LateError, assign_in_time, fall_back
from samerack.planning.group import name_of, partitions_by_member


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The plan for a question.

    Attributes:
        owner: [P] owners once everything has moved.
        sent: [P] owners in this round.
        nanos: Time that the assignor took.
        late: Why this is the plan of `range`; "" if it is the assignor's own.
    """

    question: Question
    problem: Problem
    owner: Int32Array
    sent: Int32Array
    nanos: int
    late: str = ""


def solve(question: Question) -> Solution:
    """Run the assignor of a question and check its plan.

    Raises:
        QuestionError: there is no such assignor, or a value does not fit.
        AssignmentError: the group cannot be assigned.
    """
    assignor = ASSIGNORS.get(question.assignor)
    if assignor is None:
        raise QuestionError(f"assignor {question.assignor!r} is not here; give one of {', '.join(ASSIGNORS)}")
    problem = problem_of(question)
    seen = _without_racks(problem) if assignor.as_kafka and question.protocol_version < RACKS_SINCE else problem
    owner, nanos, late = _plan(seen, question)
    cooperative = question.cooperative or assignor.cooperative
    sent = withhold(problem, owner) if cooperative else owner
    check(problem, sent, cooperative=cooperative)
    return Solution(question=question, problem=problem, owner=owner, sent=sent, nanos=nanos, late=late)


def _plan(problem: Problem, question: Question) -> tuple[Int32Array, int, str]:
    """Return owners, the median time of the later half of the runs, and why the plan is range's.

    After the first run that is late, the plan is range's and there are no more runs.
    """
    nanos: list[int] = []
    for _ in range(question.repeat):
        try:
            owner, took = assign_in_time(
                question.assignor, problem, options_of(question), seconds=question.deadline_seconds
            )
        except LateError as error:
            return fall_back(problem, seconds=question.deadline_seconds), 0, str(error)
        nanos.append(took)
    return owner, typical(nanos), ""


def _without_racks(problem: Problem) -> Problem:
    return replace(problem, member_rack=np.full(len(problem.members), NOBODY, np.int32))


def answer_of(solution: Solution) -> Answer:
    """Return the answer to a question; partitions are sorted [topic, number] pairs.

    `cross_rack` is null where it is known of no partition; `known` says of how many it is.
    """
    problem, question = solution.problem, solution.question
    cost = evaluate(problem, solution.owner)
    answer: Answer = {
        "assignment": partitions_by_member(problem, solution.sent),
        "cross_rack": cost.known_partitions_across,
        "known": cost.known,
        "moved": cost.moved,
        "nanos": solution.nanos,
    }
    if solution.late:
        answer |= {"fell_back": FALL_BACK, "reason": solution.late}
    if question.cooperative or ASSIGNORS[question.assignor].cooperative:
        waiting = np.flatnonzero(transferring(problem, solution.owner)).tolist()
        answer["transferring"] = [
            [*name_of(problem, partition), problem.members[solution.owner[partition]]] for partition in waiting
        ]
    return answer


def answer_line(line: bytes) -> Answer:
    """Return the answer to one question; an error becomes `{"error": ..., "message": ...}`."""
    return answered(line, lambda question: answer_of(solve(parse(question))), AssignmentError)
