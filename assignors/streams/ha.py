"""`HighAvailabilityTaskAssignor`: KIP-441's balance, warm-ups and probing rebalances, with KIP-925's racks.

The target depends only on clients, tasks and racks, not on the previous assignment: so probing rebalances end once the
warm-ups have caught up (KIP-925, 4: "the computed assignment must converge"). After the target is computed, lags decide
what runs where in the meantime: a task that racks move stays with its owner until the target client has caught up.

Among targets of equal cost Kafka's is taken, up to a size (`assignors.streams.kafka_racks`), and remaining ties follow
the order of Kafka's sets: any order is as good, and this one allows comparison with Kafka task by task. Standbys cost
least; `compatible=True` leaves them where Kafka's swaps of pairs do.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.board import Board, balance_over_threads, deal_by_active_load, deal_in_turn
from samerack.assignors.streams.default_standby import deal_standbys
from samerack.assignors.streams.intern import held_by
from samerack.assignors.streams.java_sets import in_queue_order, tasks_in_java_order
from samerack.assignors.streams.lag_table import LagTable
from samerack.assignors.streams.plugin import TaskAssignment, TaskAssignor
from samerack.assignors.streams.rack_steps import STATELESS, RackSteps, configured_costs, enabled_together
from samerack.assignors.streams.registry import Outcome, Request
from samerack.assignors.streams.rules import tag_warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from samerack.assignors.streams.application import ApplicationState, TaskId
    from samerack.assignors.streams.board import TaskHolder

# Converts the balanced target to a plan that can run now: KIP-441's task movements and warm-ups.
#
# A task whose target client is not caught up, while another client is closer, runs on that other client for now, and
# the target gets a warm-up. Any movement requires a probing rebalance.

_load: Final[Callable[[TaskHolder], float]] = attrgetter("load")


@dataclass(slots=True, kw_only=True)
class Warmups:
    """The number of warm-ups that may still be given, and those that were given: numbers of task and client."""

    left: int
    given: set[tuple[int, int]]

    def take(self) -> bool:
        """Use up one warm-up; return whether there was one left."""
        self.left -= 1
        return self.left >= 0


def move_actives(board: Board, lags: LagTable, warmups: Warmups) -> int:
    """Move tasks whose targets are not caught up to clients that are; return how many moved.

    A caught-up standby swaps with its active; otherwise the task goes to the least loaded caught-up client, or to the
    closest one, and its target gets a warm-up if any are left. Tasks with the fewest caught-up clients choose first.
    """
    holders, tasks = list(board.values()), list(lags.number)
    waiting = _worth_moving(board, lags, TaskType.ACTIVE, warmups)
    for number, at in waiting:
        task = tasks[number]
        caught_up = [holders[client] for client in lags.caught_up(number)]
        runner = _least_loaded([holder for holder in caught_up if task in holder.standby]) or _least_loaded(caught_up)
        if runner is None:
            closest = next(lags.closer(number, at), None)
            if closest is None:
                raise AssignmentError(f"task {task} has no client closer than {holders[at].process}; this cannot be")
            runner = holders[closest]
        if _run_elsewhere(holders[at], runner, task, warmups):
            warmups.given.add((number, at))
    return len(waiting)


def move_standbys(board: Board, lags: LagTable, warmups: Warmups) -> int:
    """Move standbys whose targets are not caught up, as `move_actives`; warm-ups stay. Returns how many moved.

    Of two standbys of a task, the one that is first in Kafka's queue moves first.
    """
    holders, tasks = list(board.values()), list(lags.number)
    moved = 0
    for number, at in _worth_moving(board, lags, TaskType.STANDBY, warmups):
        task = tasks[number]
        caught_up = (holders[client] for client in lags.caught_up(number))
        runner = _least_loaded([holder for holder in caught_up if not holder.has(task)])
        if runner is None:
            closer = (holders[client] for client in lags.closer(number, at))
            runner = next((holder for holder in closer if not holder.has(task)), None)
        if runner is None:
            continue
        runner.give(task, TaskType.STANDBY)
        if not warmups.take():
            holders[at].standby.remove(task)
        moved += 1
    return moved


def _worth_moving(board: Board, lags: LagTable, kind: TaskType, warmups: Warmups) -> list[tuple[int, int]]:
    """Return tasks to move with their targets, those with the fewest caught-up clients first, then by task."""
    task, client = held_by(board.values(), kind, lags.number)
    worth = lags.worth_moving(task, client)
    task, client = task[worth], client[worth]
    order = np.lexsort((task, client))
    pairs = zip(task[order].tolist(), client[order].tolist(), strict=True)
    return in_queue_order(
        [pair for pair in pairs if pair not in warmups.given], lambda movement: lags.urgency[movement[0]]
    )


def _least_loaded(holders: Sequence[TaskHolder]) -> TaskHolder | None:
    """Return the client with the least load, of equal ones the first; None without any."""
    if len(holders) < 2:  # as for most tasks
        return holders[0] if holders else None
    return min(holders, key=_load)


def _run_elsewhere(target: TaskHolder, runner: TaskHolder, task: TaskId, warmups: Warmups) -> bool:
    """Move an active to the client that runs it for now; return whether its target got a warm-up."""
    target.active.remove(task)
    if task in runner.standby:
        runner.standby.remove(task)
        target.give(task, TaskType.STANDBY)
        runner.give(task, TaskType.ACTIVE)
        return False
    runner.give(task, TaskType.ACTIVE)
    if not warmups.take():
        return False
    target.give(task, TaskType.STANDBY)
    return True


COSTS: Final = Costs(traffic=10, non_overlap=1)
"""Costs if none are configured: few reads across racks before few moves (KIP-925, 4.B.III)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighAvailabilityTaskAssignor(TaskAssignor):
    """KIP-924's plug-in around `high_availability`.

    Attributes:
        clock_ms: returns the current time in ms since 1970, from which the deadline of a probing rebalance is counted.
    """

    clock_ms: Callable[[], int]

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Compute the assignment (see `high_availability`).

        Raises:
            TaskAssignmentError: lags could not be computed.
        """
        return high_availability(Request(state=application_state, now_ms=self.clock_ms())).assignment


def high_availability(request: Request) -> Outcome:
    """Assign actives, standbys and warm-ups of an application (KIP-925, 3 and 4; KIP-441; KIP-708).

    1. Stateful tasks are dealt in turn, balanced over threads, and then moved to where they cost least.
    2. Standbys go to the least loaded clients, or apart by tags, are balanced, and then moved to where they cost least.
    3. Tasks whose targets are not caught up run on clients that are, with up to `max_warmup_replicas` warm-ups.
    4. Stateless tasks go to the clients with the fewest actives per thread, and are then moved by racks.

    While tasks are not on their targets the first client requests a probing rebalance after the configured interval.

    Args:
        request: the application, with a lag of every stateful task for every client.

    Raises:
        TaskAssignmentError: lags could not be computed.
        AssignmentError: a lag is missing, or a setting has an invalid value.
    """
    state = request.state
    clients = state.kafka_streams_states(compute_task_lags=True)
    configs = state.assignment_configs
    stateful = [task for task, info in state.all_tasks.items() if info.is_stateful]
    board = Board(state.states.values())
    costs = configured_costs(state, COSTS)
    gates = enabled_together(state, None if request.compatible else costs)
    racks = RackSteps(state=state, gates=gates, compatible=request.compatible, kafkas_ties=True)

    deal_in_turn(board, stateful)
    balance_over_threads(board, TaskType.ACTIVE)
    racks.optimize_actives(board, stateful, costs)
    if configs.num_standby_replicas:
        _add_standbys(state, board)
        racks.optimize_standbys(board, costs, tags=True)

    warmups = Warmups(left=configs.max_warmup_replicas, given=set())
    lags = LagTable(clients, stateful, configs.acceptable_recovery_lag)
    moved = move_actives(board, lags, warmups) + move_standbys(board, lags, warmups)

    stateless = [task for task, info in state.all_tasks.items() if not info.is_stateful]
    deal_by_active_load(board, stateless)
    racks.optimize_actives(board, stateless, STATELESS)
    return Outcome(
        assignment=_answer(board, request.now_ms + configs.probing_rebalance_interval_ms if moved else None),
        probing_rebalance=moved > 0,
        obstacle=gates.obstacle,
        warnings=tuple(tag_warnings(state)),
        costs=costs,
    )


def _answer(board: Board, deadline: int | None) -> TaskAssignment:
    """Return the assignments of all clients; the first client requests the follow-up rebalance."""
    first, *others = board.assignments().values()
    return TaskAssignment(assignment=(first.with_followup_rebalance(deadline), *others))


def _add_standbys(state: ApplicationState, board: Board) -> None:
    tagged = bool(state.assignment_configs.rack_aware_assignment_tags)
    late = tasks_in_java_order(state.all_tasks) if tagged else None
    given, _ = deal_standbys(state, board.values(), late_order=late)
    for holder, tasks in zip(board.values(), given, strict=True):
        holder.standby.update(tasks)
    balance_over_threads(board, TaskType.STANDBY, _same_tags if tagged else lambda *_: True)


def _same_tags(source: TaskHolder, target: TaskHolder) -> bool:
    """Return whether standbys may move from source to target whatever the tags of their other copies (KIP-708)."""
    return all(target.tags.get(key) == value for key, value in source.tags.items())
