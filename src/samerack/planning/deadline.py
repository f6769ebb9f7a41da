"""Plans within the deadline: no group makes an assignor run longer.

The solver cannot be interrupted, and while it runs no other thread of its process does. So only small groups are
planned in this process, in less than a tenth of a second on a usual machine; any other in a process that is killed at
the deadline. Idle processes are kept for the next plan.
"""

from __future__ import annotations

import atexit
import threading
import time
from typing import Any, Final

from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS, Options
from samerack.assignors.problem import AssignmentError, Int32Array, Problem
from samerack.common.pickle_process import CallError, PickleProcess

FALL_BACK: Final = "range"
DEADLINE_SECONDS: Final = 5.0
_MAX_ARCS: Final = 40_000
"""Larger groups are planned in another process, which costs 0.2 s for the first of them, and then a few milliseconds.
The slowest group in docs/benchmarks.md takes 2 microseconds an arc."""
_MAX_BY_LOAD: Final = 150
"""Partitions times members up to which a plan by load, an integer program, takes no longer."""
_MAX_COST: Final = 2.0**58
"""Limit of weight times arcs: beyond it the solver's integers may overflow, and a much slower solver is used."""
_MIN_RESERVE: Final = 0.2
_RESERVE_PER_PARTITION: Final = 3e-6
"""Seconds that are reserved for the fall-back, but never more than half of the deadline."""


class LateError(AssignmentError):
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
    if is_small(problem):
        return assign_timed(name, problem, options)
    reserve = min(seconds / 2, _MIN_RESERVE + _RESERVE_PER_PARTITION * len(problem.owner))
    planned: tuple[Int32Array, int] = in_process(
        __name__, assign_timed.__name__, name, problem, options, seconds=seconds - reserve
    )
    return planned


def assign_aside(
    name: str, problem: Problem, options: Options = DEFAULTS, *, seconds: float = DEADLINE_SECONDS
) -> Int32Array:
    """Return the plan of an assignor that no group waits for: what is shown of other plans, and compared with.

    Raises:
        AssignmentError: as raised by the assignor, and where there is no plan in time.
    """
    return assign_in_time(name, problem, options, seconds=seconds)[0]


def fall_back(problem: Problem) -> Int32Array:
    """Return the plan of Kafka's range: within a second or so for hundreds of thousands of partitions."""
    return ASSIGNORS[FALL_BACK].assign(problem, DEFAULTS)


def is_small(problem: Problem) -> bool:
    """Return whether the group is planned in this process, by the most arcs that its flow can have."""
    if problem.by_load:
        return len(problem.owner) * len(problem.members) <= _MAX_BY_LOAD
    columns = min(len(problem.members), 2 * len(problem.racks) + 1)
    arcs = len(problem.owner) * (columns + 1) + problem.subscriptions.size * columns + len(problem.members)
    heaviest = 1 if problem.weights is None else int(problem.weights.max(initial=1))
    return arcs <= _MAX_ARCS and float(heaviest) * arcs < _MAX_COST


def assign_timed(name: str, problem: Problem, options: Options) -> tuple[Int32Array, int]:
    """Return the plan of an assignor, and the nanoseconds that it took.

    Raises:
        AssignmentError: as raised by the assignor.
    """
    start = time.perf_counter_ns()
    owner = ASSIGNORS[name].assign(problem, options)
    return owner, time.perf_counter_ns() - start


_idle: list[PickleProcess] = []
_lock: Final = threading.Lock()


def in_process(module: str, function: str, *arguments: Any, seconds: float) -> Any:
    """Return what a function of a module returns in a process that is killed after these seconds.

    Raises:
        LateError: it did not return in time.
        AssignmentError: it failed.
    """
    with _lock:
        process = _idle.pop() if _idle else PickleProcess()
    try:
        return process.call(module, function, *arguments, seconds=seconds)
    except CallError as error:
        raise AssignmentError(str(error)) from error
    except (OSError, EOFError) as error:
        raise LateError(f"no plan within {seconds:.3g} s") from error
    finally:
        with _lock:
            _idle.append(process)


@atexit.register
def _end_all() -> None:
    with _lock:
        while _idle:
            _idle.pop().end()
