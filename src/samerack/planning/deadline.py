"""Plans within the deadline: no group makes an assignor run longer.

The solver cannot be interrupted, and while it runs no other thread of its process does. So a group that is small enough
to be planned long before the deadline is planned in this process, and any other in a separate process that is killed at
the deadline. Idle processes are kept for the next plan.
"""

from __future__ import annotations

import atexit
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from samerack.assignors.arrays import combine, row_codes
from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS, Options
from samerack.assignors.problem import NOBODY, AssignmentError, Int32Array, Problem
from samerack.common.pickle_process import FAILURES, PickleProcess

FALL_BACK: Final = "range"
DEADLINE_SECONDS: Final = 5.0
_MOMENT_SECONDS: Final = 0.1
"""For plans that nobody waits for. On a usual machine it is a tenth of that."""
ARCS_PER_SECOND: Final = 40_000
"""Groups with at most so many arcs per second of the deadline are planned in this process: 25 microseconds per arc,
while the slowest in docs/benchmarks.md takes 2."""
PARTITIONS_PER_SECOND: Final = 400_000
"""Of groups with few arcs: an assignor goes through its arrays several times, which takes 2.5 microseconds a partition,
while the slowest in docs/benchmarks.md takes 2."""
STEPS_PER_SECOND: Final = 200_000
"""Steps that Kafka's range takes while it matches racks, on a slow machine."""
MAX_COST: Final = 2.0**58
"""Limit of weight times arcs: beyond it the solver's integers may overflow, and a much slower solver is used."""
MIN_RESERVE: Final = 0.2
RESERVE_PER_PARTITION: Final = 3e-6
"""Seconds that are reserved for the fall-back, but never more than half of the deadline."""


class LateError(Exception):
    """There is no plan within the deadline; the message contains the deadline."""


def assign_in_time(
    name: str, problem: Problem, options: Options, *, seconds: float = DEADLINE_SECONDS
) -> tuple[Int32Array, int]:
    """Return the plan of an assignor within the deadline, and the nanoseconds that it took.

    Args:
        name: the assignor's name.
        problem: the group.
        options: the options of the plan.
        seconds: the deadline, of which a part is reserved for the fall-back.

    Raises:
        LateError: there is no plan in time.
        AssignmentError: as raised by the assignor.
    """
    if _is_planned_within(seconds, name, problem, options):
        start = time.perf_counter_ns()
        owner = ASSIGNORS[name].assign(problem, options)
        return owner, time.perf_counter_ns() - start
    left = seconds - _reserve(problem, seconds)
    return _assign_in_worker((name, problem, options, left), left)


def assign_aside(name: str, problem: Problem, options: Options = DEFAULTS) -> Int32Array:
    """Return the plan of an assignor that no group waits for: what is shown of other plans, and compared with.

    It is computed in a separate process unless it takes a moment only, as no heartbeat is answered meanwhile.

    Raises:
        AssignmentError: as raised by the assignor, and where there is no plan within the usual deadline.
    """
    if _is_planned_within(_MOMENT_SECONDS, name, problem, options):
        return ASSIGNORS[name].assign(problem, options)
    try:
        return _assign_in_worker((name, problem, options, DEADLINE_SECONDS), DEADLINE_SECONDS)[0]
    except LateError as error:
        raise AssignmentError(str(error)) from error


def _is_planned_within(seconds: float, name: str, problem: Problem, options: Options) -> bool:
    """Return whether an assignor certainly needs no more than these seconds."""
    if ASSIGNORS[name].as_kafka:
        return range_steps(problem) < STEPS_PER_SECOND * seconds
    # bundles of partitions and skewed loads have networks of their own
    plain = ASSIGNORS[name].assign is ASSIGNORS["optimal"].assign and replace(options, stickiness=True) == DEFAULTS
    return is_small(problem, seconds, merges_alike=plain)


def fall_back(problem: Problem, *, seconds: float = DEADLINE_SECONDS) -> Int32Array:
    """Return the plan of Kafka's range within the reserved part of the deadline; ignore racks in very large groups.

    Args:
        problem: the group.
        seconds: the whole deadline.
    """
    if range_steps(problem) > STEPS_PER_SECOND * _reserve(problem, seconds):
        problem = replace(problem, member_rack=np.full(len(problem.members), NOBODY, np.int32))
    return ASSIGNORS[FALL_BACK].assign(problem, DEFAULTS)


def range_steps(problem: Problem) -> int:
    """Return the most steps that range takes to match racks: by topics and members, or by partitions if more."""
    size = np.bincount(problem.subscription_of, minlength=len(problem.subscriptions))
    consumers = size @ problem.subscriptions
    partitions = np.bincount(problem.topic_of, minlength=len(problem.topics))
    alone = int(np.where(partitions > 0, consumers, 0).sum())
    alike = len(np.unique(partitions)) < len(partitions)  # topics that may be assigned together, partition by partition
    return max(alone, len(problem.owner) if alike else 0)


def _reserve(problem: Problem, seconds: float) -> float:
    return min(seconds / 2, MIN_RESERVE + RESERVE_PER_PARTITION * len(problem.owner))


def is_small(problem: Problem, seconds: float, *, merges_alike: bool = False) -> bool:
    """Return whether the group is certainly planned within the seconds, by the most arcs that its flow can have.

    Args:
        problem: the group.
        seconds: the time to plan it.
        merges_alike: whether partitions that are alike are one unit of the flow. They are counted only where that may
            decide, as it takes a part of the time of a plan; partitions with weights hardly ever are alike.
    """
    units = len(problem.owner)
    if _arcs(problem, units) > ARCS_PER_SECOND * seconds:
        if not merges_alike or problem.weights is not None or units > PARTITIONS_PER_SECOND * seconds:
            return False
        units = _units(problem)
    arcs = _arcs(problem, units)
    heaviest = 1 if problem.weights is None else int(problem.weights.max(initial=1))
    return arcs <= ARCS_PER_SECOND * seconds and float(heaviest) * arcs < MAX_COST


def _arcs(problem: Problem, units: int) -> int:
    columns = min(len(problem.members), 2 * len(problem.racks) + 1)
    return units * (columns + 1) + problem.subscriptions.size * columns + len(problem.members)


def _units(problem: Problem) -> int:
    """Return how many different partitions there are, by replicas' racks, leader's rack, subscribers and owner."""
    code, count = row_codes(list(problem.replica_racks.T)) if problem.racks else (np.zeros_like(problem.owner), [()])
    kind, kinds = row_codes(list(problem.subscriptions))
    code, bound = combine(code, len(count), problem.leader_rack + np.int32(1), len(problem.racks) + 1)
    code, bound = combine(code, bound, kind[problem.topic_of], len(kinds))
    return combine(code, bound, problem.owner + np.int32(1), len(problem.members) + 1)[1]


_Question: TypeAlias = tuple[str, Problem, Options, float]

_idle: list[PickleProcess] = []
_lock: Final = threading.Lock()


def _assign_in_worker(question: _Question, seconds: float) -> tuple[Int32Array, int]:
    with _lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = PickleProcess("samerack.planning.worker")
    answer = _ask(worker, question, seconds)
    if answer is None:
        raise LateError(f"no plan within {seconds:.3g} s")
    with _lock:
        _idle.append(worker)
    owner, nanos, failure = answer
    if owner is None:
        raise AssignmentError(failure)
    return np.asarray(owner, np.int32), int(nanos)


def _ask(worker: PickleProcess, question: _Question, seconds: float) -> Any:
    """Return the answer, or None at the deadline or if the process died; then the worker has ended."""
    answers: list[Any] = []

    def talk() -> None:
        with suppress(*FAILURES):
            worker.send(question)
            answers.append(worker.receive())

    talking = threading.Thread(target=talk, daemon=True)
    talking.start()
    talking.join(seconds)
    if not answers:
        worker.kill()
        talking.join()  # it ends at once, as the process has ended
        worker.end()
    return answers[0] if answers else None


@atexit.register
def _end_all() -> None:
    with _lock:
        while _idle:
            _idle.pop().end()
