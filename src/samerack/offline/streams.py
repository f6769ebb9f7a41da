"""`samerack streams`: where the tasks of a Kafka Streams application go, for people and for programs.

People give one application and get tables. Programs write one JSON question per line and read one JSON answer per line
(`--lines`).
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.evaluate import TaskCost, bill, missing_standbys, remote_partitions, spread
from samerack.assignors.streams.optimize import (
    Obstacle,
    costs_of,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
    tag_warnings,
)
from samerack.assignors.streams.plugin import identity_assignment
from samerack.common.command_line import OneLineErrors
from samerack.common.console import Console
from samerack.common.words import plain
from samerack.offline.json_lines import QuestionError, answer_lines, content_of, one_line_errors
from samerack.offline.streams_answers import (
    ASSIGN,
    DEFAULT_STANDBY,
    OPTIMIZE,
    Plan,
    answer_line,
    outcome_of,
    tasks_by_name,
)
from samerack.offline.streams_compare import (
    ACTIVE_HEADINGS,
    STANDBY_HEADINGS,
    as_markdown,
    compare_actives,
    compare_standbys,
    instance_of,
    instances,
    page,
)
from samerack.offline.streams_json import Application, StreamsQuestion, parse

if TYPE_CHECKING:
    from collections.abc import Collection

streams: Final = typer.Typer(
    name="streams",
    cls=OneLineErrors,
    no_args_is_help=True,
    help="Assign the tasks of Kafka Streams applications (KIP-441, KIP-708, KIP-924, KIP-925).",
)

LinesOption = Annotated[
    bool, typer.Option("--lines", help="Answer each line of standard input at once with one line of JSON.")
]


@streams.command("optimize", no_args_is_help=True)
def optimize(*, lines: LinesOption = False) -> None:
    """Move tasks of a plan to where they read least across racks (KIP-925), one JSON question per line."""
    _answer(lines=lines, commands=(OPTIMIZE,))


@streams.command("assign", no_args_is_help=True)
def assign(*, lines: LinesOption = False) -> None:
    """Assign all tasks, or add standbys to actives ("cmd": "streams-default-standby"), one JSON question per line."""
    _answer(lines=lines, commands=(DEFAULT_STANDBY, ASSIGN))


PLAN_HELP: Final = """Show where the tasks of an application are, and where they would cost least.

FILE (- for standard input) is one JSON object with clients, tasks and where they are:

{"strategy": "min_traffic", "traffic_cost": 10, "non_overlap_cost": 1, "clients": [{"id": "A", "rack": "a"}, {"id": "B",
"rack": "b"}], "tasks": [{"subtopology": 0, "partition": 0, "partitions": [{"topic": "t", "partition": 0, "racks":
["b"]}]}, {"subtopology": 0, "partition": 1, "partitions": [{"topic": "t", "partition": 1, "racks": ["a"]}]}],
"assignment": {"A": ["0_0"], "B": ["0_1"]}}

It may add "standby" ({client: [tasks]}), "stateful" to a task, "changelog" and "source" (true or false) to a partition,
"threads" and "tags" to a client, "rack_aware_assignment_tags", or an "assignor" with "previous_active",
"previous_standby" and "lags".
"""


def plan_of_file(source: Path, *, as_json: bool) -> None:
    """Show the tasks of an application in a file before and after; the command is in `cli.streams`."""
    with one_line_errors("streams plan", AssignmentError):
        planned = planned_of(_question(source))
        if as_json:
            typer.echo(json.dumps(plan_json(planned)))
        else:
            show_plan(planned, Console())


@streams.command("compare")
def compare(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="An application as JSON, as `samerack streams plan` takes it."),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    as_page: Annotated[bool, typer.Option("--page", help="The page of the documentation.")] = False,
) -> None:
    """Compare all strategies of KIP-925: what is read across racks, what moves, how standbys spread."""
    with one_line_errors("streams compare", AssignmentError):
        if as_page and (source is not None or as_json):
            raise QuestionError("--page takes no input: give neither FILE nor --json")
        chosen = instances() if source is None else [instance_of(source.stem, _question(source))]
        if as_page:
            typer.echo(page(chosen), nl=False)
            return
        actives, standbys = compare_actives(chosen), compare_standbys(chosen)
        if as_json:
            typer.echo(json.dumps({"active": actives, "standby": standbys}))
        else:
            typer.echo(as_markdown(ACTIVE_HEADINGS, actives) + "\n\n" + as_markdown(STANDBY_HEADINGS, standbys))


def _question(source: Path) -> StreamsQuestion:
    return parse(content_of(source), known_keys_only=True)


def _answer(*, lines: bool, commands: Collection[str]) -> None:
    if not lines:
        typer.echo("samerack streams: give --lines, and questions on standard input", err=True)
        raise typer.Exit(2)
    answer_lines(lambda line: answer_line(line, commands))


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
