"""What runs in the process that plans for Streams applications, which may be killed: an assignor cannot be interrupted.

The body of a question is read here, because that holds up all threads of a process. Users' assignors stay in this
module: an application's object is the same from one plan to the next (KIP-924).
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import chain, repeat
from typing import Any, Final

from samerack.agent.streams.context import PlanContext, Rackless
from samerack.agent.streams.figures import Summary
from samerack.agent.streams.making import MadePlan, PlanError, make
from samerack.agent.streams.own_assignors import OwnAssignorError, OwnAssignors, SentPlan, subscription_of
from samerack.agent.streams.question import VERSION, PlanQuestion, PlanQuestionError, read_question
from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.application import ProcessId, TaskId
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.assignors.streams.evaluate import reads_of
from samerack.assignors.streams.plugin import AssignmentError as TaskError
from samerack.assignors.streams.plugin import TaskAssignment, group_assignment

# Writes the JSON that answers `POST /v1/streams/assign`, and what the agent keeps of a plan.

Assignments = Mapping[ProcessId, KafkaStreamsAssignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crossing:
    """Partitions that are read across racks, and the weight of them."""

    partitions: int
    weight: int


def summary(planned: MadePlan, *, plan: str) -> Summary:
    """Return a plan in figures; `plan` is its id."""
    state, before, after = planned.state, planned.before, planned.plan
    standbys = Counter(chain.from_iterable(one.of_type(TaskType.STANDBY) for one in after.values()))
    configured = state.assignment_configs.num_standby_replicas
    had = {process: one.of_type(TaskType.ACTIVE) for process, one in before.items()}
    owned = frozenset[TaskId]().union(*had.values())
    # what a client had that is gone is not known, neither its actives nor its standbys
    is_whole = owned >= state.all_tasks.keys()
    sources = reads_of(state, TaskType.ACTIVE)
    crossing = partial(_crossing, planned)
    sources_before = crossing(before, TaskType.ACTIVE) if is_whole else None
    changelogs_before = crossing(before, TaskType.STANDBY) if is_whole else None
    sources_after = crossing(after, TaskType.ACTIVE)
    changelogs_after = crossing(after, TaskType.STANDBY)
    followups = [one.followup_rebalance_deadline for one in after.values()]
    traffic = planned.outcome.costs.traffic if planned.outcome.costs is not None else None
    return Summary(
        application=planned.question.application,
        plan=plan,
        assignor=planned.assignor,
        strategy=state.assignment_configs.rack_aware_assignment_strategy,
        clients=len(state.states),
        tasks=len(state.all_tasks),
        sources=sum(len(sources.distinct[number]) for number in sources.number.values()),
        sources_before=_partitions(sources_before),
        sources_after=_partitions(sources_after),
        changelogs_before=_partitions(changelogs_before),
        changelogs_after=_partitions(changelogs_after),
        cost_before=_cost(traffic, sources_before, changelogs_before),
        cost_after=_cost(traffic, sources_after, changelogs_after),
        moved=sum(len((one.of_type(TaskType.ACTIVE) - had[process]) & owned) for process, one in after.items()),
        standbys=sum(standbys.values()),
        warmups=sum(count - configured for count in standbys.values() if count > configured),
        followup_ms=min((followup for followup in followups if followup is not None), default=None),
        warnings=planned.warnings,
    )


def _partitions(found: _Crossing | None) -> int | None:
    return None if found is None else found.partitions


def _cost(traffic: int | None, *found: _Crossing | None) -> int | None:
    if traffic is None or None in found:
        return None
    return traffic * sum(one.weight for one in found if one is not None)


def _crossing(planned: MadePlan, plan: Assignments, kind: TaskType) -> _Crossing | None:
    """Return what tasks of one kind read across racks; None if a rack is not known.

    A client that sent no rack reads from leaders, whose racks are not in the question, also where followers are near.
    """
    reads = reads_of(planned.state, kind)
    held: dict[tuple[str | None, bool], list[frozenset[TaskId]]] = {}
    for client in planned.question.clients:
        key = planned.state.states[client.process_id].rack_id, not client.rack_id
        held.setdefault(key, []).append(plan[client.process_id].of_type(kind))
    partitions = weight = 0
    for (rack, only_leaders), tasks in held.items():
        counts = Counter(map(reads.number.get, chain.from_iterable(tasks), repeat(-1)))
        del counts[-1]  # a task that a client had may no longer exist
        for number, count in counts.items():
            for racks, one in reads.distinct[number]:
                if not rack or not racks or (only_leaders and rack in racks and len(racks) > 1):
                    return None
                if rack not in racks:
                    partitions += count
                    weight += count * one
    return _Crossing(partitions=partitions, weight=weight)


def to_json(planned: MadePlan, figures: Summary) -> bytes:
    """Return the answer: the plan of every client in the order of the question, and its bill."""
    index = {task: number for number, task in enumerate(planned.question.task_ids)}

    def numbers(assignment: KafkaStreamsAssignment, kind: TaskType) -> list[int]:
        return sorted(map(index.__getitem__, assignment.of_type(kind)))

    answer: dict[str, Any] = {
        "version": VERSION,
        "plan": figures.plan,
        "clients": [
            {
                "process": str(client.process_id),
                "active": numbers(planned.plan[client.process_id], TaskType.ACTIVE),
                "standby": numbers(planned.plan[client.process_id], TaskType.STANDBY),
                "followup_ms": planned.plan[client.process_id].followup_rebalance_deadline,
            }
            for client in planned.question.clients
        ],
        "assignor": figures.assignor,
        "bill": {
            "cross_rack_before": figures.before,
            "cross_rack_after": figures.after,
            "sources_before": figures.sources_before,
            "sources_after": figures.sources_after,
            "changelogs_before": figures.changelogs_before,
            "changelogs_after": figures.changelogs_after,
            "cost_before": figures.cost_before,
            "cost_after": figures.cost_after,
            "moved": figures.moved,
            "standbys": figures.standbys,
            "warmups": figures.warmups,
        },
        "warnings": list(figures.warnings),
    }
    return json.dumps(answer, separators=(",", ":")).encode()


WARM_UP: Final = "warm-up"
_WARM_UP_RUNS: Final = 2
"""Plans after which another one takes no less time."""
_TASKS: Final = 200
_CLIENTS: Final = 20
_RACKS: Final = 3
_END: Final = 50_000
"""The lag of a client without state: not caught up."""
_own: Final = OwnAssignors()


def plan(application: str, body: bytes, context: PlanContext) -> Iterator[tuple[Any, ...]]:
    """Yield (200, the answer to a question as JSON, its `Summary`), or another status and the reason.

    If clients have no rack and `context.racks` is None, (100, these clients): the next call has racks for them.
    """
    try:
        question = read_question(body)
        if question.application != application:
            yield HTTPStatus.BAD_REQUEST, "application: does not match the one in the URL"
            return
        if context.racks is None and (rackless := _rackless(question)):
            yield HTTPStatus.CONTINUE, rackless
            return
        planned = make(question, context, _own, now_ms=time.time_ns() // 1_000_000)
        figures = summary(planned, plan=uuid.uuid4().hex)
        answer = to_json(planned, figures)
        if ":" in planned.assignor:
            _keep(planned, context, figures.plan)
    except PlanQuestionError as error:
        yield HTTPStatus.BAD_REQUEST, str(error)
    except (AssignmentError, PlanError, OwnAssignorError) as error:
        yield HTTPStatus.UNPROCESSABLE_ENTITY, str(error)
    else:
        yield HTTPStatus.OK, answer, figures


def _rackless(question: PlanQuestion) -> tuple[Rackless, ...]:
    return tuple(
        Rackless(
            process=str(client.process_id),
            consumers=client.consumer_client_ids,
            host=client.host_info[0] if client.host_info else None,
            tags=tuple(sorted(client.client_tags.items())),
        )
        for client in question.clients
        if not client.rack_id
    )


def _keep(planned: MadePlan, context: PlanContext, plan: str) -> None:
    """Keep a plan of a user's assignor, which is notified of its outcome."""
    whole = TaskAssignment(assignment=tuple(planned.plan.values()))
    application = planned.question.application
    _own.keep(
        plan,
        SentPlan(
            assignor=_own.of(application, planned.assignor, context.rules.options),
            assignment=group_assignment(planned.state, whole),
            subscription=subscription_of(planned.question),
        ),
    )


def computed(plan: str, error: str) -> tuple[Any, ...]:
    """Report to a user's assignor what came of its plan; return (200,), or another status and the reason."""
    try:
        _own.computed(plan, TaskError(error))
    except OwnAssignorError as failure:
        return HTTPStatus.UNPROCESSABLE_ENTITY, str(failure)
    return (HTTPStatus.OK,)


def warm_up() -> tuple[Any, ...]:
    """Plan a small question, so that the first real one need not load what plans."""
    body = warm_up_question()
    for _ in range(_WARM_UP_RUNS):
        next(plan(WARM_UP, body, PlanContext()))
    return (HTTPStatus.OK,)


def warm_up_question() -> bytes:
    """Return a small application with state, standbys, lags and racks, large enough for the solvers of large ones."""
    return json.dumps(
        {
            "version": VERSION,
            "application": WARM_UP,
            "configs": {"num_standby_replicas": 1, "rack_aware_strategy": "min_traffic"},
            "topics": ["source", "changelog"],
            "racks": [f"rack-{number}" for number in range(_RACKS)],
            "tasks": [
                [f"0_{number}", 1, [[0, number, 1, [number % _RACKS]], [1, number, 2, [number % _RACKS]]]]
                for number in range(_TASKS)
            ],
            "lags": [[number, _END] for number in range(_TASKS)],
            "clients": [
                {
                    "process": f"{number:032x}",
                    "threads": 1,
                    "consumers": [f"warm-up-{number}"],
                    "active": list(range(number, _TASKS, _CLIENTS)),
                    "standby": [],
                    "lags": [[task, -2] for task in range(number, _TASKS, _CLIENTS)],
                    "rack": number % _RACKS,
                }
                for number in range(_CLIENTS)
            ],
        }
    ).encode()
