"""A process that plans for one Streams application and may be killed: an assignor cannot be interrupted.

Reads pickles from standard input and writes pickles to standard output. The body of a question is parsed here, because
parsing holds up all threads of a process.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import sys
import time
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from samerack.agent.streams.answer import summary, to_json
from samerack.agent.streams.context import Caller, PlanContext, Rackless
from samerack.agent.streams.making import MadePlan, PlanError, make
from samerack.agent.streams.own_assignors import OwnAssignorError, OwnAssignors, SentPlan, find_in, subscription_of
from samerack.agent.streams.question import VERSION, PlanQuestion, PlanQuestionError, read_question
from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.plugin import AssignmentError as TaskError
from samerack.assignors.streams.plugin import TaskAssignment, group_assignment
from samerack.common.errors import one_line

_WARM_UP_RUNS: Final = 2
"""Plans after which another one takes no less time."""
_TASKS: Final = 200
_CLIENTS: Final = 20
_RACKS: Final = 3
_END: Final = 50_000
"""The lag of a client without state: not caught up."""

Receive = Callable[[], Any]
Send = Callable[[Any], None]


class Planner:
    """Answers the agent's messages; has the users' assignors of this process."""

    def __init__(self, receive: Receive, send: Send) -> None:
        """Prepare; `receive` returns the agent's next message, and raises EOFError if the agent has ended."""
        self._receive = receive
        self._send = send
        self._own = OwnAssignors()
        self._unsent: object = None
        """What a plan was made of: freeing millions of values waits until the answer is sent."""

    def serve(self) -> None:
        """Answer until the agent ends: `plan` with who asks, and a plan, `computed` with nothing."""
        while True:
            try:
                what, given, seconds = self._receive()
                # if the agent's process has ended, the kernel ends this process even while the solver runs
                signal.setitimer(signal.ITIMER_REAL, seconds + 1.0)
                gc.disable()  # a plan is millions of values that all stay until it is sent: a third of its time
                self._send(self.answer(what, given))
            except EOFError:
                return
            finally:
                self._unsent = None
                signal.setitimer(signal.ITIMER_REAL, 0)
                gc.enable()

    def answer(self, what: str, given: Any) -> tuple[Any, ...]:
        """Return the answer to a message: (200, ...), or another status and the reason."""
        try:
            return self._plan(given) if what == "plan" else self._computed(*given)
        except PlanQuestionError as error:
            return HTTPStatus.BAD_REQUEST, str(error)
        except (AssignmentError, PlanError, OwnAssignorError) as error:
            return HTTPStatus.UNPROCESSABLE_ENTITY, str(error)
        except EOFError:
            raise
        except Exception as error:  # noqa: BLE001 - the application has a fall-back, and reports why it was needed
            return HTTPStatus.INTERNAL_SERVER_ERROR, one_line(error)

    def _plan(self, body: bytes) -> tuple[Any, ...]:
        question = read_question(body)
        self._send((HTTPStatus.OK, _caller(question)))
        context: PlanContext | None = self._receive()
        if context is None:  # the agent has answered already
            return (HTTPStatus.OK,)
        planned = make(question, context, self._own, now_ms=time.time_ns() // 1_000_000)
        self._unsent = (question, planned)
        figures = summary(planned, plan=uuid.uuid4().hex)
        answer = to_json(planned, figures)
        if ":" in planned.assignor:
            self._keep(planned, context, figures.plan)
        return HTTPStatus.OK, answer, figures

    def _keep(self, planned: MadePlan, context: PlanContext, plan: str) -> None:
        """Keep a plan of a user's assignor, which is notified of its outcome."""
        whole = TaskAssignment(assignment=tuple(planned.plan.values()))
        self._own.keep(
            plan,
            SentPlan(
                assignor=self._own.of(planned.assignor, context.rules.options),
                assignment=group_assignment(planned.state, whole),
                subscription=subscription_of(planned.question),
            ),
        )

    def _computed(self, plan: str, error: str) -> tuple[Any, ...]:
        self._own.computed(plan, TaskError(error))
        return (HTTPStatus.OK,)


def _caller(question: PlanQuestion) -> Caller:
    return Caller(
        application=question.application,
        rackless=tuple(
            Rackless(
                process=str(client.process_id),
                consumers=client.consumer_client_ids,
                host=client.host_info[0] if client.host_info else None,
                tags=tuple(sorted(client.client_tags.items())),
            )
            for client in question.clients
            if not client.rack_id
        ),
    )


def warm_up() -> None:
    """Plan a small question, so that the first real one need not load what plans."""
    planner, body = Planner(PlanContext, lambda _: None), warm_up_question()
    for _ in range(_WARM_UP_RUNS):
        planner.answer("plan", body)


def warm_up_question() -> bytes:
    """Return a small application with state, standbys, lags and racks, large enough for the solvers of large ones."""
    return json.dumps(
        {
            "version": VERSION,
            "application": "warm-up",
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


def main() -> None:
    """Plan until standard input ends; the arguments are folders of users' assignors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a user's assignor prints is no answer
    find_in(tuple(sys.argv[1:]))

    def send(answer: Any) -> None:
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()

    warm_up()
    send((HTTPStatus.OK,))  # ready
    Planner(lambda: pickle.load(questions), send).serve()  # noqa: S301 - from the process that started this


if __name__ == "__main__":
    main()
