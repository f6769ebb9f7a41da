"""Converts the balanced target to a plan that can run now: KIP-441's task movements and warm-ups.

A task whose target client is not caught up, while another client is closer, runs on that other client for now, and the
target gets a warm-up. Any movement requires a probing rebalance.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.intern import held_by
from samerack.assignors.streams.java_sets import in_queue_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from samerack.assignors.streams.application import TaskId
    from samerack.assignors.streams.board import Board, TaskHolder
    from samerack.assignors.streams.lag_table import LagTable

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
