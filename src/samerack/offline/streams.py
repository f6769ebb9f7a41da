"""Plans a Kafka Streams application that is described in JSON, and shows its tasks before and after."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from rich.table import Table

from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import ProcessId, TaskAssignmentError
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.assignors.streams.evaluate import TaskCost, bill, missing_standbys, remote_partitions, spread
from samerack.assignors.streams.optimize import (
    Obstacle,
    costs_of,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
    tag_warnings,
)
from samerack.assignors.streams.plugin import Outcome, Request, identity_assignment
from samerack.assignors.streams.registry import ASSIGNORS
from samerack.common.console import Console
from samerack.common.words import plain
from samerack.offline.json_input import QuestionError
from samerack.offline.streams_json import Application, StreamsQuestion

Plan: TypeAlias = dict[ProcessId, KafkaStreamsAssignment]


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


def tasks_by_name(application: Application, plan: Plan, kind: TaskType) -> dict[str, list[str]]:
    """Tasks of every client, in the order of the question's clients."""
    return {
        name: [str(task) for task in sorted(plan[process].of_type(kind))] if process in plan else []
        for name, process in application.process.items()
    }


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
