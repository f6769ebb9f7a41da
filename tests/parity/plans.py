"""Our plans and those of Kafka's own assignors for the same group, as arrays, and the values that are compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from samerack.assignors.check import check
from samerack.assignors.problem import NOBODY, AssignmentError, Cost, Int32Array, Problem
from samerack.offline.assign import Solution, solve
from samerack.offline.assign_json import parse
from samerack.offline.assign_json import problem_of as problem_of_question

if TYPE_CHECKING:
    from tests.parity.cases import Case
    from tests.parity.peer import Peer


def ours(case: Case) -> Solution:
    """Our solution of a case."""
    return solve(parse(json.dumps(case)))


def problem_of(case: Case) -> Problem:
    """The group of a case."""
    return problem_of_question(parse(json.dumps(case)))


def owners(problem: Problem, answer: dict[str, Any]) -> Int32Array:
    """The owner of each partition in an answer; NOBODY for partitions that it leaves out."""
    names = zip(problem.topic_of.tolist(), problem.number_of.tolist(), strict=True)
    position = {(problem.topics[topic], number): index for index, (topic, number) in enumerate(names)}
    owner = np.full(len(position), NOBODY, np.int32)
    for index, member in enumerate(problem.members):
        for topic, number in answer["assignment"][member]:
            owner[position[topic, number]] = index
    return owner


def kafkas_plan(peer: Peer, case: Case, problem: Problem) -> Int32Array | None:
    """Kafka's final plan: of the case's assignor, or of `sticky` (the same algorithm) if that one withholds partitions.

    None if the plan is wrong: Kafka gives partitions to members without topics (`test_assignors` tests that).
    """
    for assignor in (case["assignor"], "sticky"):
        owner = owners(problem, peer.ask(case | {"assignor": assignor}))
        try:
            check(problem, owner, cooperative=False)
        except AssignmentError:
            continue
        return owner
    return None


def rank(cost: Cost) -> tuple[int, int, int]:
    """The values that are compared, the most important first."""
    return cost.sum_of_squares, cost.cross_rack, cost.moved


def max_of_a_topic(problem: Problem, owner: Int32Array) -> int:
    """The largest number of partitions that any member has of any topic."""
    taken = owner != NOBODY
    cells = owner[taken].astype(np.int64) * len(problem.topics) + problem.topic_of[taken]
    return int(np.bincount(cells, minlength=1).max())
