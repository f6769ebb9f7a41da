"""What runs in the process that plans for Streams applications, which may be killed: an assignor cannot be interrupted.

The body of a question is read here, because that holds up all threads of a process. Users' assignors stay in this
module: an application's object is the same from one plan to the next (KIP-924).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from samerack.agent.streams.answer import summary, to_json
from samerack.agent.streams.context import PlanContext, Rackless
from samerack.agent.streams.making import MadePlan, PlanError, make
from samerack.agent.streams.own_assignors import OwnAssignorError, OwnAssignors, SentPlan, subscription_of
from samerack.agent.streams.question import VERSION, PlanQuestion, PlanQuestionError, read_question
from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.plugin import AssignmentError as TaskError
from samerack.assignors.streams.plugin import TaskAssignment, group_assignment

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
            yield HTTPStatus.BAD_REQUEST, "application: is not the one that the address names"
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
