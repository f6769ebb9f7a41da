"""Answers about a Kafka Streams application that is described in JSON: its plan for people, and lines for programs.

A line is answered with an optimised plan, with default standbys, or with a whole assignment.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rich.table import Table

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import ProcessId, TaskAssignmentError
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.assignors.streams.default_standby import default_standby_task_assignment
from samerack.assignors.streams.evaluate import TaskCost, bill, missing_standbys, remote_partitions, spread
from samerack.assignors.streams.java_sets import tasks_in_java_order
from samerack.assignors.streams.optimize import (
    Obstacle,
    costs_of,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
    tag_warnings,
)
from samerack.assignors.streams.plugin import Outcome, Request, identity_assignment, validate_task_assignment
from samerack.assignors.streams.registry import ASSIGNORS
from samerack.common.console import Console
from samerack.common.words import plain
from samerack.offline.json_lines import Answer, QuestionError, answered, typical
from samerack.offline.streams_json import Application, StreamsQuestion, parse

if TYPE_CHECKING:
    from collections.abc import Callable

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


def answer_line(line: bytes, default_command: str = "") -> Answer:
    """Return the answer to one question; whatever is wrong with it becomes `{"error": ..., "message": ...}`.

    `default_command` is meant where the question names none; "" for a whole assignment where it names an assignor, and
    else an optimised plan.
    """

    def answer(text: bytes) -> Answer:
        question = parse(text)
        command = question.cmd or default_command or (ASSIGN if question.assignor else OPTIMIZE)
        if command not in COMMANDS:
            raise QuestionError(f"'cmd' is {command!r}; give one of {', '.join(COMMANDS)}")
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


# -- for people

_NAMED: Final = 5
"""Tasks that a note names; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedApplication:
    """An application, its tasks before and after, and what a person should know.

    `costs` are the prices by which it was planned; None where there are none.
    """

    application: Application
    before: Plan
    after: Plan
    costs: Costs | None
    notes: tuple[str, ...] = field(default=())


def planned_of(question: StreamsQuestion) -> PlannedApplication:
    """Return the tasks of an application where they cost least: by its assignor if it names one, else by moving tasks.

    Raises:
        QuestionError: there is no such assignor, or no task is anywhere.
        AssignmentError: the application does not fit.
    """
    application = Application(question)
    if question.assignor is not None:
        return _assigned(application)
    before = application.assignments()
    if not any(assignment.tasks for assignment in before.values()):
        raise QuestionError("no client has a task; give 'assignment' ({client: [tasks]}), or name an 'assignor'")
    params = application.scope()
    costs = costs_of(params)
    actives = optimize_rack_aware_active_tasks(params, before, compatible=question.compatible)
    standbys = optimize_rack_aware_standby_tasks(params, actives.assignments, compatible=question.compatible)
    notes = [*tag_warnings(application.state)]
    if actives.obstacle is not None:
        notes.append(f"actives stay: {actives.obstacle.message}")
    if standbys.obstacle is not None and any(a.of_type(TaskType.STANDBY) for a in before.values()):
        notes.append(f"standbys stay: {standbys.obstacle.message}")
    return PlannedApplication(
        application=application,
        before=before,
        after=standbys.assignments,
        costs=None if isinstance(costs, Obstacle) else costs,
        notes=tuple(notes),
    )


def _assigned(application: Application) -> PlannedApplication:
    outcome = outcome_of(application, now_ms=application.question.now_ms or time.time_ns() // 1_000_000)
    notes = [*outcome.warnings]
    if outcome.obstacle is not None:
        notes.append(f"racks are ignored: {outcome.obstacle.message}")
    if outcome.probing_rebalance:
        notes.append("warm-ups are in progress: a follow-up rebalance continues")
    after = {assignment.process_id: assignment for assignment in outcome.assignment.assignment}
    missing = missing_standbys(application.state, after)
    if missing:
        some = ", ".join(map(str, sorted(missing)[:_NAMED])) + (", ..." if len(missing) > _NAMED else "")
        notes.append(
            f"standbys without a client: {sum(missing.values())} (of {some}); start more clients, or lower "
            "num.standby.replicas"
        )
    before = identity_assignment(application.state)
    return PlannedApplication(
        application=application, before=before, after=after, costs=outcome.costs, notes=tuple(notes)
    )


def _bills(planned: PlannedApplication, kind: TaskType) -> tuple[TaskCost, TaskCost]:
    """Return what the tasks of a kind cost before and after; nothing where there are no prices."""
    application = planned.application
    costs = planned.costs or Costs(traffic=0, non_overlap=0)
    compatible = application.question.compatible
    first, last = (
        bill(application.state, planned.before, plan, kind, costs, compatible=compatible)
        for plan in (planned.before, planned.after)
    )
    return first, last


def plan_json(planned: PlannedApplication) -> dict[str, Any]:
    """Return the plan as one JSON object."""
    application = planned.application
    answer: dict[str, Any] = {}
    unpriced = {"cost": None} if planned.costs is None else {}
    for kind in TaskType:
        first, last = _bills(planned, kind)
        answer[kind.value.lower()] = {
            "before": tasks_by_name(application, planned.before, kind),
            "after": tasks_by_name(application, planned.after, kind),
            "cost_before": asdict(first) | unpriced,
            "cost_after": asdict(last) | unpriced,
        }
    return answer | {"spread": asdict(spread(application.state, planned.after)), "notes": list(planned.notes)}


def show_plan(planned: PlannedApplication, console: Console) -> None:
    """Print a row per client, what both cost, and the notes."""
    application = planned.application
    table = Table(title=f"{len(application.state.all_tasks)} tasks on {len(application.state.states)} clients")
    for column in ("client", "rack", "actives", "standbys"):
        table.add_column(column, overflow="fold")
    for column in ("across racks now", "then"):
        table.add_column(column, justify="right")
    for name, process in application.process.items():
        client = application.state.states[process]
        cells = [_changes(planned, name, kind) for kind in TaskType]
        table.add_row(
            name,
            client.rack_id or "-",
            *cells,
            *(str(_remote(planned, name, plan)) for plan in (planned.before, planned.after)),
        )
    console.print(table)
    for kind in TaskType:
        first, last = _bills(planned, kind)
        if any(assignment.of_type(kind) for assignment in planned.after.values()):
            console.print(
                f"{kind.value.lower()}s across racks: now {first.cross_rack} partitions, then {last.cross_rack}; "
                f"moved {last.moved}" + ("" if planned.costs is None else f"; cost now {first.cost}, then {last.cost}")
            )
    for note in planned.notes:
        console.print(plain(f"note: {note}"))


def _changes(planned: PlannedApplication, name: str, kind: TaskType) -> str:
    """Tasks of a client: those that come with +, those that go with -."""
    process = planned.application.process[name]
    before, after = (
        plan[process].of_type(kind) if process in plan else frozenset() for plan in (planned.before, planned.after)
    )
    marked = [(task, "+" if task not in before else "-" if task not in after else "") for task in before | after]
    return " ".join(f"{mark}{task}" for task, mark in sorted(marked))


def _remote(planned: PlannedApplication, name: str, plan: Plan) -> int:
    application = planned.application
    process = application.process[name]
    tasks = plan[process].tasks.items() if process in plan else ()
    return sum(
        len(remote_partitions(application.state, process, task, kind, compatible=application.question.compatible))
        for task, kind in tasks
    )
