"""Answers to Streams questions, as JSON objects: an optimised plan, default standbys, or a whole assignment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import ProcessId, TaskAssignmentError
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.assignors.streams.default_standby import default_standby_task_assignment
from samerack.assignors.streams.evaluate import bill, missing_standbys
from samerack.assignors.streams.java_sets import tasks_in_java_order
from samerack.assignors.streams.optimize import optimize_rack_aware_active_tasks, optimize_rack_aware_standby_tasks
from samerack.assignors.streams.plugin import Outcome, Request, validate_task_assignment
from samerack.assignors.streams.registry import ASSIGNORS
from samerack.offline.json_lines import Answer, QuestionError, answered, typical
from samerack.offline.streams_json import Application, StreamsQuestion, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from samerack.assignors.streams.optimize import RackAwareOptimizationParams

Plan: TypeAlias = dict[ProcessId, KafkaStreamsAssignment]
Result = TypeVar("Result")

OPTIMIZE: Final = "streams-optimize"
DEFAULT_STANDBY: Final = "streams-default-standby"
ASSIGN: Final = "streams-assign"


def optimize(question: StreamsQuestion) -> Answer:
    """Return a plan in which the tasks of one kind cost less, and what both cost."""
    application = Application(question)
    before, params = application.assignments(), application.scope()
    kind = TaskType(question.kind.upper())
    run = optimize_rack_aware_active_tasks if kind is TaskType.ACTIVE else optimize_rack_aware_standby_tasks
    optimization, nanos = _timed(question, lambda: run(params, before, compatible=question.compatible))
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


def default_standby(question: StreamsQuestion) -> Answer:
    """Return the plan with standbys added."""
    application = Application(question)
    before = application.assignments()
    known = application.state.all_tasks
    logged = [task for task in application.task_order if known[task].is_changelogged]
    order = tasks_in_java_order(logged) if question.compatible else None
    plan, nanos = _timed(
        question,
        lambda: default_standby_task_assignment(
            application.state, before, order=order, at_least_one=question.compatible
        ),
    )
    return {
        "active": tasks_by_name(application, plan.assignments, TaskType.ACTIVE),
        "standby": tasks_by_name(application, plan.assignments, TaskType.STANDBY),
        "missing": {str(task): count for task, count in plan.missing.items()},
        "nanos": nanos,
    }


def outcome_of(application: Application, *, now_ms: int) -> Outcome:
    """Return what the assignor that the question names makes of an application.

    Raises:
        QuestionError: there is no such assignor, or no client.
        TaskAssignmentError: it cannot decide now.
        AssignmentError: the application does not fit.
    """
    question = application.question
    if not application.state.states:
        raise QuestionError("no client to assign tasks to; give at least one in 'clients'")
    run = ASSIGNORS.get(question.assignor or "")
    if run is None:
        raise QuestionError(f"assignor {question.assignor!r} is unknown; give one of {', '.join(ASSIGNORS)}")
    try:
        return run(
            Request(
                state=application.state,
                now_ms=now_ms,
                must_preserve_active=question.must_preserve_active,
                compatible=question.compatible,
            )
        )
    except TaskAssignmentError as error:
        if question.lags is not None:
            raise
        raise TaskAssignmentError(
            f"{error}. Give 'lags' ({{client: {{task: lag}}}}), or take 'fallback-prior', as Kafka does without lags"
        ) from None


def assign(question: StreamsQuestion) -> Answer:
    """Return a whole assignment by a named assignor."""
    application = Application(question)
    state = application.state
    outcome, nanos = _timed(question, lambda: outcome_of(application, now_ms=question.now_ms))
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


COMMANDS: Final[dict[str, Callable[[StreamsQuestion], Answer]]] = {
    OPTIMIZE: optimize,
    DEFAULT_STANDBY: default_standby,
    ASSIGN: assign,
}


def answer_line(line: bytes, commands: Collection[str]) -> Answer:
    """Return the answer to one question; whatever is wrong with it becomes `{"error": ..., "message": ...}`.

    Args:
        line: one JSON object.
        commands: what may be asked; its first is meant where the question names none and has no assignor.
    """

    def answer(text: bytes) -> Answer:
        question = parse(text)
        command = question.cmd or (ASSIGN if question.assignor and ASSIGN in commands else next(iter(commands)))
        if command not in commands:
            raise QuestionError(f"'cmd' is {command!r}; give one of {', '.join(commands)}")
        return COMMANDS[command](question)

    return answered(line, answer, AssignmentError)


def tasks_by_name(application: Application, plan: Plan, kind: TaskType) -> dict[str, list[str]]:
    """Tasks of every client, in the order of the question's clients."""
    return {
        name: [str(task) for task in sorted(plan[process].of_type(kind))] if process in plan else []
        for name, process in application.process.items()
    }


def _timed(question: StreamsQuestion, run: Callable[[], Result]) -> tuple[Result, int]:
    """Return what came of it, and the median ns of the later half of the runs that are asked for."""
    nanos = []
    for _ in range(question.repeat):
        start = time.perf_counter_ns()
        result = run()
        nanos.append(time.perf_counter_ns() - start)
    return result, typical(nanos)
