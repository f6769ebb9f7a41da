"""`samerack assign`: plans a group or a Streams application that is described in JSON, for people and for programs.

People give one group and get a table. Programs write one JSON question per line and read one JSON answer per line
(`--lines`): the assignor's checked plan and its cost. An application of Kafka Streams (`offline.streams`) has clients
in place of members.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from samerack.assignors.check import round_to_send, transferring
from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.assignors.evaluate import evaluate, known_crossing_by_member
from samerack.assignors.problem import NOBODY, AssignmentError, Int32Array, Problem, by_counts
from samerack.assignors.streams.registry import ASSIGNORS as ASSIGNORS_OF_TASKS
from samerack.common.console import Column, Console, table_of
from samerack.common.words import count, partitions_across, percent
from samerack.offline import streams, streams_compare
from samerack.offline.assign_json import AssignQuestion, options_of, parse, problem_of
from samerack.offline.json_lines import (
    Answer,
    QuestionError,
    answer_lines,
    answered,
    content_of,
    one_line_errors,
    typical,
)
from samerack.offline.streams_json import StreamsQuestion
from samerack.offline.streams_json import parse as parse_streams
from samerack.planning.curve import CurvePoint, points_of
from samerack.planning.deadline import FALL_BACK, LateError, assign_in_time, fall_back
from samerack.planning.group import OPTIMAL, name_of, partitions_by_member
from samerack.protocol.consumer import RACK_SINCE

HELP = """Assign a consumer group or a Kafka Streams application that is described in JSON.

The description of a group names an assignor, brokers with their racks, the replicas (broker ids, the leader first) of
each partition of each topic, and the members with their topics, racks and owned partitions:

{"assignor": "optimal", "brokers": [{"id": 0, "rack": "a"}, {"id": 1, "rack": "b"}], "topics": {"t": [[0], [1]]},
"members": [{"id": "m1", "topics": ["t"], "rack": "b"}, {"id": "m2", "topics": ["t"], "rack": "a"}]}

It may add "locality" ("any", or "leader" where only the leader replica serves), "weights" ({topic: [cost of each
partition]}), "keep_copartitioned", "cooperative" and "stickiness" (true or false; without stickiness the plan starts
afresh), "max_skew" (how many partitions more than its fair share a member may have, so that fewer are read across
racks) and "deadline_seconds" (after which the plan is that of range). Members are balanced by load instead of by counts
with "loads" ({topic: [load of each partition]}), or where a member has a "capacity" (2 for twice as much) or
"max_partitions"; the most loaded may be "balance_tolerance" (0.1) above the least possible to read less across racks.

The description of a Streams application names clients, tasks and where they are (KIP-441, KIP-708, KIP-924, KIP-925):

{"strategy": "min_traffic", "traffic_cost": 10, "non_overlap_cost": 1, "clients": [{"id": "A", "rack": "a"}, {"id": "B",
"rack": "b"}], "tasks": [{"subtopology": 0, "partition": 0, "partitions": [{"topic": "t", "partition": 0, "racks":
["b"]}]}, {"subtopology": 0, "partition": 1, "partitions": [{"topic": "t", "partition": 1, "racks": ["a"]}]}],
"assignment": {"A": ["0_0"], "B": ["0_1"]}}

It may add "standby" ({client: [tasks]}), "stateful" to a task, "changelog" and "source" (true or false) to a partition,
"threads" and "tags" to a client, "rack_aware_assignment_tags", or an "assignor" with "previous_active",
"previous_standby" and "lags". On lines, "cmd" may be "streams-optimize" (move tasks to where they read least across
racks), "streams-assign" (assign all tasks; the default with an assignor) or "streams-default-standby" (add standbys).
"""


def register(app: typer.Typer) -> None:
    """Add the command `assign`."""
    app.command("assign", help=HELP, no_args_is_help=True)(assign)


def assign(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The group or application as one JSON object; - for standard input."),
    ] = None,
    assignor: Annotated[
        str | None,
        typer.Option(
            "--assignor",
            "-a",
            help=f"Assignor to use instead of the file's: {', '.join(ASSIGNORS)}; for Streams "
            f"{', '.join(ASSIGNORS_OF_TASKS)}.",
        ),
    ] = None,
    *,
    lines: Annotated[
        bool, typer.Option("--lines", help="Answer each line of standard input at once with one line of JSON.")
    ] = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Show what would cross racks if members could have more than a fair share.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare all strategies of KIP-925 on a Streams application: what is read across racks, what moves, "
            "how standbys spread.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Answer a question, or many."""
    if lines:
        answer_lines(answer_line)
        return
    with one_line_errors("assign", AssignmentError):
        if source is None:
            raise QuestionError("no group given; name a file, - for standard input, or --lines")
        content = content_of(source)
        if is_streams(content):
            if curve:
                raise QuestionError(
                    "--curve is for consumer groups: no setting of Streams assignors allows uneven loads"
                )
            question = parse_streams(content, known_keys_only=True)
            if compare:
                _compare(source.stem, question, as_json=as_json)
            else:
                _plan_application(question, assignor, as_json=as_json)
        else:
            if compare:
                raise QuestionError("--compare is for Streams applications, which have 'clients' and 'tasks'")
            group = parse(content, known_keys_only=True)
            _plan_group(group, OPTIMAL if curve else assignor, curve=curve, as_json=as_json)


def is_streams(content: bytes) -> bool:
    """Return whether a question is about a Streams application."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not value.keys().isdisjoint({"clients", "tasks"})


def _compare(name: str, question: StreamsQuestion, *, as_json: bool) -> None:
    """Show every strategy of KIP-925 on an application."""
    applications = [streams_compare.instance_of(name, question)]
    actives = streams_compare.compare_actives(applications)
    standbys = streams_compare.compare_standbys(applications)
    if as_json:
        typer.echo(json.dumps({"active": actives, "standby": standbys}))
        return
    typer.echo(
        streams_compare.as_markdown(streams_compare.ACTIVE_HEADINGS, actives)
        + "\n\n"
        + streams_compare.as_markdown(streams_compare.STANDBY_HEADINGS, standbys)
    )


def _plan_application(question: StreamsQuestion, assignor: str | None, *, as_json: bool) -> None:
    """Show the tasks of an application before and after."""
    planned = streams.planned_of(question if assignor is None else question.model_copy(update={"assignor": assignor}))
    if as_json:
        typer.echo(json.dumps(streams.plan_json(planned)))
    else:
        streams.show_plan(planned, Console())


def _plan_group(question: AssignQuestion, assignor: str | None, *, curve: bool, as_json: bool) -> None:
    """Show the plan of a group, or its curve."""
    if assignor is not None:
        question = question.model_copy(update={"assignor": assignor})
    if curve:
        points = points_of(by_counts(problem_of(question)), options_of(question), seconds=question.deadline_seconds)
        if as_json:
            typer.echo(json.dumps({"points": [asdict(point) for point in points]}))
        else:
            show_points(points, Console())
        return
    solution = solve(question)
    if as_json:
        typer.echo(json.dumps(answer_of(solution)))
    else:
        _show(solution)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The plan for a question.

    Attributes:
        owner: [P] owners once everything has moved.
        sent: [P] owners in this round.
        nanos: Time that the assignor took.
        late: Why this is the plan of `range`; "" if it is the assignor's own.
    """

    question: AssignQuestion
    problem: Problem
    owner: Int32Array
    sent: Int32Array
    nanos: int
    late: str = ""


def solve(question: AssignQuestion) -> Solution:
    """Run the assignor of a question and check its plan.

    Raises:
        QuestionError: there is no such assignor, or a value does not fit.
        AssignmentError: the group cannot be assigned.
    """
    assignor = ASSIGNORS.get(question.assignor)
    if assignor is None:
        raise QuestionError(f"assignor {question.assignor!r} is unknown; give one of {', '.join(ASSIGNORS)}")
    problem = problem_of(question)
    seen = _without_racks(problem) if assignor.as_kafka and question.protocol_version < RACK_SINCE else problem
    owner, nanos, late = _plan(seen, question)
    cooperative = question.cooperative or assignor.cooperative
    sent = round_to_send(problem, owner, cooperative=cooperative)
    return Solution(question=question, problem=problem, owner=owner, sent=sent, nanos=nanos, late=late)


def _plan(problem: Problem, question: AssignQuestion) -> tuple[Int32Array, int, str]:
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
            return fall_back(problem), 0, str(error)
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
    if is_streams(line):
        return streams.answer_line(line)
    return answered(line, lambda question: answer_of(solve(parse(question))), AssignmentError)


def show_points(points: Sequence[CurvePoint], console: Console) -> None:
    """Print a curve as a table."""
    console.print("what crosses racks against max_skew")
    columns = {
        "max_skew": [str(point.max_skew) for point in points],
        "across racks": [count(point.cross_rack) for point in points],
        "share": [percent(point.cross_rack_share) for point in points],
        "fullest": [str(point.fullest) for point in points],
        "emptiest": [str(point.emptiest) for point in points],
        "moved": [str(point.moved) for point in points],
    }
    console.print(
        table_of(
            (Column(title=title, cells=cells, number=True) for title, cells in columns.items()), width=console.width
        )
    )


def _show(solution: Solution) -> None:
    """One row per member, and what the plan costs beside the present owners."""
    problem, console = solution.problem, Console()
    table = Table(
        title=f"{len(problem.members)} members, {len(problem.topic_of)} partitions, {solution.question.assignor}"
    )
    for column in ("member", "rack", "partitions"):
        table.add_column(column, overflow="fold")
    table.add_column("across racks", justify="right")
    partitions = partitions_by_member(problem, solution.sent)
    crossing = known_crossing_by_member(problem, solution.sent)
    for index, member in enumerate(problem.members):
        rack = problem.member_rack[index]
        listed = _ranges(partitions[member])
        table.add_row(member, "-" if rack == NOBODY else problem.racks[rack], listed, count(crossing[index]))
    console.print(table)
    after = evaluate(problem, solution.owner)
    console.print(
        f"across racks: now {_across(problem, problem.owner)}, then {_across(problem, solution.owner)}; "
        f"moved {after.moved}, fullest less emptiest member {after.imbalance}, without subscriber {after.unassigned}"
    )
    if solution.late:
        console.print(f"this is the plan of range: {solution.late}")
    withheld = int((solution.sent != solution.owner).sum())
    if withheld:
        console.print(f"{withheld} partitions wait until their current owners revoke them")


def _across(problem: Problem, owner: Int32Array) -> str:
    cost = evaluate(problem, owner)
    return partitions_across(cost.known_partitions_across, known=cost.known, of=int((owner != NOBODY).sum()))


def _ranges(pairs: list[tuple[str, int]]) -> str:
    """Partitions in short: `orders 0-3 7, clicks 1`."""
    topics: dict[str, list[list[int]]] = {}
    for topic, number in pairs:
        runs = topics.setdefault(topic, [])
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(
        f"{topic} " + " ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)
        for topic, runs in topics.items()
    )
