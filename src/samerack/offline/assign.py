"""`samerack assign`: puts a group that is described in JSON to an assignor, for people and for programs.

People give one group and get a table. Programs write one JSON question per line and read one JSON answer per line
(`--lines`): the assignor's checked plan and its cost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from samerack.assignors.check import round_to_send, transferring
from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.assignors.evaluate import evaluate, known_crossing_by_member
from samerack.assignors.problem import NOBODY, AssignmentError, Int32Array, Problem
from samerack.common.console import Console
from samerack.common.words import count, partitions_across
from samerack.offline.assign_json import AssignQuestion, options_of, parse, problem_of
from samerack.offline.curve import points_of, show_points
from samerack.offline.json_lines import (
    Answer,
    QuestionError,
    answer_lines,
    answered,
    content_of,
    one_line_errors,
    typical,
)
from samerack.planning.deadline import FALL_BACK, LateError, assign_in_time, fall_back
from samerack.planning.group import OPTIMAL, name_of, partitions_by_member
from samerack.protocol.consumer import RACK_SINCE

HELP = """Assign a consumer group that is described in JSON.

The description names an assignor, brokers with their racks, the replicas (broker ids, the leader first) of each
partition of each topic, and the members with their topics, racks and owned partitions:

{"assignor": "optimal", "brokers": [{"id": 0, "rack": "a"}, {"id": 1, "rack": "b"}], "topics": {"t": [[0], [1]]},
"members": [{"id": "m1", "topics": ["t"], "rack": "b"}, {"id": "m2", "topics": ["t"], "rack": "a"}]}

It may add "locality" ("any", or "leader" where only the leader replica serves), "weights" ({topic: [cost of each
partition]}), "keep_copartitioned", "cooperative" and "stickiness" (true or false; without stickiness the plan starts
afresh), "max_skew" (how many partitions more than its fair share a member may have, so that fewer are read across
racks), "spread_moves" (how many partitions more may move, so that no member has too many of one topic) and
"deadline_seconds" (after which the plan is that of range).
"""


def register(app: typer.Typer) -> None:
    """Add the command `assign`."""
    app.command("assign", help=HELP, no_args_is_help=True)(assign)


def assign(
    source: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The group as one JSON object; - for standard input.")
    ] = None,
    assignor: Annotated[
        str | None,
        typer.Option("--assignor", "-a", help=f"Assignor to use instead of the file's: {', '.join(ASSIGNORS)}."),
    ] = None,
    *,
    lines: Annotated[
        bool, typer.Option("--lines", help="Answer each line of standard input at once with one line of JSON.")
    ] = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Show what would cross racks if members could have more than a fair share.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Answer a question, or many."""
    if lines:
        answer_lines(answer_line)
        return
    if curve:
        with one_line_errors("assign", AssignmentError):
            question = _question(source, OPTIMAL)
            points = points_of(problem_of(question), options_of(question), seconds=question.deadline_seconds)
        if as_json:
            typer.echo(json.dumps({"points": points}))
        else:
            show_points(points, Console())
        return
    with one_line_errors("assign", AssignmentError):
        solution = solve(_question(source, assignor))
    if as_json:
        typer.echo(json.dumps(answer_of(solution)))
    else:
        _show(solution)


def _question(source: Path | None, assignor: str | None) -> AssignQuestion:
    if source is None:
        raise QuestionError("no group given; name a file, - for standard input, or --lines")
    question = parse(content_of(source), known_keys_only=True)
    return question if assignor is None else question.model_copy(update={"assignor": assignor})


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
    return answered(line, lambda question: answer_of(solve(parse(question))), AssignmentError)


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
