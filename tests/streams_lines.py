"""Answers to questions about Streams applications as Kafka's Java gives them: one JSON line each, to be compared.

A line is answered with an optimised plan, with default standbys, or with a whole assignment.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.default_standby import default_standby_task_assignment
from samerack.assignors.streams.evaluate import bill, missing_standbys
from samerack.assignors.streams.java_sets import tasks_in_java_order
from samerack.assignors.streams.optimize import optimize_rack_aware_active_tasks, optimize_rack_aware_standby_tasks
from samerack.assignors.streams.plugin import validate_task_assignment
from samerack.offline.assign_json import read
from samerack.offline.json_input import QuestionError
from samerack.offline.streams import outcome_of, tasks_by_name
from samerack.offline.streams_json import Application, StreamsQuestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from samerack.assignors.streams.optimize import RackAwareOptimizationParams

Answer = dict[str, Any]
Result = TypeVar("Result")

OPTIMIZE: Final = "streams-optimize"
DEFAULT_STANDBY: Final = "streams-default-standby"
ASSIGN: Final = "streams-assign"


class LineQuestion(StreamsQuestion):
    """A question, and what is asked: of an optimised plan the tasks of one kind."""

    kind: Literal["active", "standby"] = "active"
    cmd: str | None = None


def optimize(question: LineQuestion) -> Answer:
    """Return a plan in which the tasks of one kind cost less, and what both cost."""
    application = Application(question)
    before, params = application.assignments(), application.scope()
    kind = TaskType(question.kind.upper())
    run = optimize_rack_aware_active_tasks if kind is TaskType.ACTIVE else optimize_rack_aware_standby_tasks
    optimization, nanos = _timed(lambda: run(params, before, compatible=question.compatible))
    after, costs, compatible = optimization.assignments, prices(params), question.compatible
    scope = params.tasks_to_optimize
    first = bill(application.state, before, before, kind, costs, scope=scope, compatible=compatible)
    last = bill(application.state, before, after, kind, costs, scope=scope, compatible=compatible)
    other = TaskType.STANDBY if kind is TaskType.ACTIVE else TaskType.ACTIVE
    obstacle = optimization.obstacle
    return {
        "assignment": tasks_by_name(application, after, kind),
        "other": tasks_by_name(application, after, other),
        "cost_initial": first.cost,
        "cross_rack_initial": first.cross_rack,
        "cross_rack": last.cross_rack,
        "moved": last.moved,
        "cost": last.cost,
        "disabled": None if obstacle is None else {"reason": obstacle.reason.value, "message": obstacle.message},
        "nanos": nanos,
    }


def prices(params: RackAwareOptimizationParams) -> Costs:
    """Return the prices of a bill; what is not priced costs nothing."""
    configs = params.application_state.assignment_configs
    traffic = params.traffic_cost_override
    non_overlap = params.non_overlap_cost_override
    return Costs(
        traffic=(configs.rack_aware_traffic_cost or 0) if traffic is None else traffic,
        non_overlap=(configs.rack_aware_non_overlap_cost or 0) if non_overlap is None else non_overlap,
    )


def default_standby(question: LineQuestion) -> Answer:
    """Return the plan with standbys added."""
    application = Application(question)
    before = application.assignments()
    known = application.state.all_tasks
    logged = [task for task in application.task_order if known[task].is_changelogged]
    order = tasks_in_java_order(logged) if question.compatible else None
    plan, nanos = _timed(
        lambda: default_standby_task_assignment(
            application.state, before, order=order, at_least_one=question.compatible
        )
    )
    return {
        "active": tasks_by_name(application, plan.assignments, TaskType.ACTIVE),
        "standby": tasks_by_name(application, plan.assignments, TaskType.STANDBY),
        "missing": {str(task): count for task, count in plan.missing.items()},
        "nanos": nanos,
    }


def assign(question: LineQuestion) -> Answer:
    """Return a whole assignment by a named assignor."""
    application = Application(question)
    state = application.state
    outcome, nanos = _timed(lambda: outcome_of(application, now_ms=question.now_ms))
    plan = {assignment.process_id: assignment for assignment in outcome.assignment.assignment}
    active = [task for assignment in plan.values() for task in assignment.of_type(TaskType.ACTIVE)]
    standbys = [task for assignment in plan.values() for task in assignment.of_type(TaskType.STANDBY)]
    cross_rack = {
        key: bill(state, plan, plan, kind, Costs(traffic=0, non_overlap=0), compatible=compatible).cross_rack
        for key, kind, compatible in (
            ("cross_rack_active", TaskType.ACTIVE, True),
            ("cross_rack_active_source_only", TaskType.ACTIVE, False),
            ("cross_rack_standby", TaskType.STANDBY, False),
        )
    }
    return {
        "active": tasks_by_name(application, plan, TaskType.ACTIVE),
        "standby": tasks_by_name(application, plan, TaskType.STANDBY),
        "tasks_with_warmups": [
            str(task) for task in sorted(set(standbys)) if standbys.count(task) > question.num_standby_replicas
        ],
        "probing_rebalance": outcome.probing_rebalance,
        "rack_aware_enabled": outcome.obstacle is None,
        "disabled": None if outcome.obstacle is None else outcome.obstacle.message,
        "warnings": list(outcome.warnings),
        "followup_deadline_ms": {
            application.name[process]: assignment.followup_rebalance_deadline
            for process, assignment in plan.items()
            if assignment.followup_rebalance_deadline is not None
        },
        "validation": validate_task_assignment(state, outcome.assignment).value,
        "missing_standbys": {str(task): count for task, count in missing_standbys(state, plan).items()},
        "unassigned": [str(task) for task in sorted(state.all_tasks.keys() - set(active))],
        **cross_rack,
        "nanos": nanos,
    }


COMMANDS: Final[dict[str, Callable[[LineQuestion], Answer]]] = {
    OPTIMIZE: optimize,
    DEFAULT_STANDBY: default_standby,
    ASSIGN: assign,
}


def answer_line(line: bytes, command: str = "") -> Answer:
    """Return the answer to one question; whatever is wrong with it becomes `{"error": ..., "message": ...}`.

    `command` is meant where the question names none; "" for a whole assignment where it names an assignor, and else an
    optimised plan.
    """
    try:
        question = read(LineQuestion, line, known_keys_only=False, see="tests/streams_lines.py")
        return COMMANDS[question.cmd or command or (ASSIGN if question.assignor else OPTIMIZE)](question)
    except (QuestionError, AssignmentError) as error:
        return {"error": type(error).__name__, "message": str(error)}


def ask(question: dict[str, Any]) -> Answer:
    """Return the answer to a question that is no text yet."""
    return answer_line(json.dumps(question).encode())


def _timed(run: Callable[[], Result]) -> tuple[Result, int]:
    start = time.perf_counter_ns()
    result = run()
    return result, time.perf_counter_ns() - start
