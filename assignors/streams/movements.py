"""Converts the balanced target to a plan that can run now: KIP-441's task movements and warm-ups.

A task whose target client is not caught up, while another client is closer, runs on that other client for now, and the
target gets a warm-up. Any movement requires a probing rebalance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from samerack.assignors.model import AssignmentError
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.java_sets import in_queue_order
from samerack.assignors.streams.model import LATEST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from samerack.assignors.streams.board import Board, TaskHolder
    from samerack.assignors.streams.model import KafkaStreamsState, ProcessId, TaskId

UNBOUNDED: Final = 2**63 - 1
"""An acceptable recovery lag that every client meets (`Long.MAX_VALUE`)."""


@dataclass(slots=True, kw_only=True)
class Warmups:
    """The number of warm-ups that may still be given, and those that were given: (client, task)."""

    left: int
    given: set[tuple[ProcessId, TaskId]]

    def take(self) -> bool:
        """Uses up one warm-up; returns whether there was one left."""
        self.left -= 1
        return self.left >= 0


class Lags:
    """The lags of all clients by task."""

    def __init__(
        self, clients: Mapping[ProcessId, KafkaStreamsState], tasks: Iterable[TaskId], acceptable: int
    ) -> None:
        """Reads every lag once.

        Raises:
            AssignmentError: a client has no lag for one of the tasks.
        """
        self._lags = {task: {process: client.lag_for(task) for process, client in clients.items()} for task in tasks}
        self._caught_up = {
            task: [process for process, lag in lags.items() if _is_caught_up(lag, acceptable)]
            for task, lags in self._lags.items()
        }

    def caught_up(self, task: TaskId) -> list[ProcessId]:
        """Returns the clients, ascending, that ran the task or whose lag is acceptable (KIP-441)."""
        return self._caught_up[task]

    def is_worth_moving(self, task: TaskId, target: ProcessId) -> bool:
        """Returns whether the target is not caught up and another client is closer."""
        lags = self._lags[task]
        return target not in self._caught_up[task] and min(lags.values()) < lags[target]

    def closest(self, task: TaskId, target: ProcessId, fits: Callable[[ProcessId], bool]) -> ProcessId | None:
        """Returns the client with the least lag that fits and is closer than the target; None if none."""
        lags = self._lags[task]
        own = (lags[target], target.order)
        closer = [(lag, process.order, process) for process, lag in lags.items() if (lag, process.order) < own]
        return next((process for _, _, process in sorted(closer) if fits(process)), None)


def _is_caught_up(lag: int, acceptable: int) -> bool:
    return lag == LATEST_OFFSET or acceptable == UNBOUNDED or 0 <= lag <= acceptable


def move_actives(board: Board, lags: Lags, warmups: Warmups) -> int:
    """Moves tasks whose targets are not caught up to clients that are; returns how many moved.

    A caught-up standby swaps with its active; otherwise the task goes to the least loaded caught-up client, or to the
    closest one, and its target gets a warm-up if any are left. Tasks with the fewest caught-up clients choose first.
    """
    waiting = _worth_moving(board, lags, TaskType.ACTIVE, warmups)
    for task, target in waiting:
        caught_up = [board[process] for process in lags.caught_up(task)]
        standby = _least_loaded(holder for holder in caught_up if task in holder.standby)
        runner = standby or _least_loaded(caught_up)
        if runner is None:
            closest = lags.closest(task, target, lambda _: True)
            if closest is None:
                raise AssignmentError(f"task {task} has no client closer than {target}; this cannot be")
            runner = board[closest]
        _run_elsewhere(board[target], runner, task, warmups)
    return len(waiting)


def move_standbys(board: Board, lags: Lags, warmups: Warmups) -> int:
    """Moves standbys whose targets are not caught up, as `move_actives`; warm-ups stay. Returns how many moved.

    Of two standbys of a task, the one that is first in Kafka's queue moves first.
    """
    moved = 0
    for task, target in _worth_moving(board, lags, TaskType.STANDBY, warmups):
        standby_client = _least_loaded(
            board[process] for process in lags.caught_up(task) if not board[process].has(task)
        )
        if standby_client is None:
            closest = lags.closest(task, target, lambda process, task=task: not board[process].has(task))  # type: ignore[misc]  # mypy drops the default
            if closest is None:
                continue
            standby_client = board[closest]
        standby_client.give(task, TaskType.STANDBY)
        if not warmups.take():
            board[target].standby.remove(task)
        moved += 1
    return moved


def _worth_moving(board: Board, lags: Lags, kind: TaskType, warmups: Warmups) -> list[tuple[TaskId, ProcessId]]:
    """Returns tasks to move with their targets, those with the fewest caught-up clients first, then by task."""
    found = [
        (task, process)
        for process, holder in board.items()
        for task in sorted(holder.of(kind))
        if (process, task) not in warmups.given and lags.is_worth_moving(task, process)
    ]

    def urgency(movement: tuple[TaskId, ProcessId]) -> tuple[int, TaskId]:
        return len(lags.caught_up(movement[0])), movement[0]

    return in_queue_order(found, urgency)


def _least_loaded(holders: Iterable[TaskHolder]) -> TaskHolder | None:
    return min(holders, key=lambda holder: (holder.load, holder.process.order), default=None)


def _run_elsewhere(target: TaskHolder, runner: TaskHolder, task: TaskId, warmups: Warmups) -> None:
    if task in runner.standby:
        runner.standby.remove(task)
        runner.give(task, TaskType.ACTIVE)
        target.active.remove(task)
        target.give(task, TaskType.STANDBY)
        return
    runner.give(task, TaskType.ACTIVE)
    target.active.remove(task)
    if warmups.take():
        target.give(task, TaskType.STANDBY)
        warmups.given.add((target.process, task))
