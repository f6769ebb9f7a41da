"""Assigns tasks so that they stay where they were, as Kafka's sticky assignors do.

A client keeps its actives up to its quota; other actives go to clients that had a standby and are below their quota;
the rest, and standbys, go to clients that had the task unless these are crowded, else to the least loaded client that
has a task with which this one was not yet paired. Standbys may be kept apart by tags, unlike Kafka's. Tasks and clients
are in the order of Kafka's sets: no other order is better, and the number of actives of a client depends on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.java_sets import (
    in_java_order,
    info_hash,
    processes_in_java_order,
    tasks_at_once,
    tasks_in_java_order,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from samerack.assignors.streams.assignment import KafkaStreamsAssignment
    from samerack.assignors.streams.board import Board, TaskHolder
    from samerack.assignors.streams.model import ApplicationState, ProcessId, TaskId, TaskInfo

    Assignments = Mapping[ProcessId, KafkaStreamsAssignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """The variants of the sticky assignor.

    Attributes:
        must_preserve_active: actives stay whatever the balance.
        is_former: the assignor before KIP-924: of two clients with equal load it prefers the one with more threads,
            and clients and tasks with changelogs are in ascending order.
        tag_keys: each standby goes to a client that adds the most tags of these keys to its task (KIP-708); Kafka's
            sticky assignors ignore tags.
    """

    must_preserve_active: bool = False
    is_former: bool = False
    tag_keys: tuple[str, ...] = ()


class Deal:
    """One run: the previous assignment, the new one, and the pairs of tasks that have shared a client in it."""

    def __init__(self, state: ApplicationState, board: Board, previous: Assignments, manners: Manners) -> None:
        """Starts from an empty board.

        Args:
            state: the application.
            board: the board, which is changed.
            previous: the previous assignment of every client.
            manners: the variant.
        """
        self._tasks = state.all_tasks
        self._board = board
        self._manners = manners
        self._number = {task: number for number, task in enumerate(state.all_tasks)}
        self._neighbours: set[tuple[int, int]] = set()
        self._active: dict[TaskId, ProcessId] = {}
        self._standby: dict[TaskId, list[ProcessId]] = {}
        for process in board:
            for task in sorted(previous[process].of_type(TaskType.ACTIVE)):
                self._active[task] = process  # if several clients claim it, the last one, as in Kafka
            for task in previous[process].of_type(TaskType.STANDBY):
                self._standby.setdefault(task, []).append(process)

    def deal_actives(self) -> None:
        """Gives every task to a client."""
        threads = sum(holder.threads for holder in self._board.values())
        quota = len(self._tasks) // threads
        left = dict.fromkeys(tasks_at_once(self._tasks))
        for task in tasks_in_java_order(self._active):
            holder = self._board[self._active[task]]
            if task in left and (self._manners.must_preserve_active or len(holder.active) < quota * holder.threads):
                self._give(task, holder, TaskType.ACTIVE)
                del left[task]
        for task in list(left):
            had = self._set_of([self._board[process] for process in self._standby.get(task, ())])
            roomy = next((holder for holder in had if len(holder.active) < quota * holder.threads), None)
            if roomy is not None:
                self._give(task, roomy, TaskType.ACTIVE)
                del left[task]
        everybody = list(self._board.values())
        if not self._manners.is_former:
            everybody = list(self._set_of(everybody))
        for task in sorted(left):
            self._give(task, self._best(task, everybody), TaskType.ACTIVE)

    def deal_standbys(self, count: int) -> None:
        """Gives every task with a changelog that many standbys, if there are enough clients without the task."""
        for info in self._changelogged():
            for _ in range(count):
                free = [holder for holder in self._board.values() if not holder.has(info.id)]
                if not free:
                    break
                if self._manners.tag_keys:
                    free = self._furthest_apart(info.id, free)
                self._give(info.id, self._best(info.id, self._set_of(free)), TaskType.STANDBY)

    def _furthest_apart(self, task: TaskId, holders: Sequence[TaskHolder]) -> list[TaskHolder]:
        """Returns the clients with the most tags that the task's copies do not have yet."""
        keys = self._manners.tag_keys
        there = {
            tag for holder in self._board.values() if holder.has(task) for tag in holder.tags.items() if tag[0] in keys
        }
        new = [sum(tag[0] in keys and tag not in there for tag in holder.tags.items()) for holder in holders]
        return [holder for holder, count in zip(holders, new, strict=True) if count == max(new)]

    def _give(self, task: TaskId, holder: TaskHolder, kind: TaskType) -> None:
        mine = self._number[task]
        for other in (*holder.active, *holder.standby):
            self._neighbours.add(_pair(mine, self._number[other]))
        holder.give(task, kind)

    def _best(self, task: TaskId, holders: Sequence[TaskHolder]) -> TaskHolder:
        """Returns the best client for the task.

        This is the one that had it active, else the least loaded that had a standby, unless crowded; else the least
        loaded.
        """
        if len(holders) == 1:
            return holders[0]
        standbys = [holder for holder in holders if holder.process in self._standby.get(task, ())]
        owner = self._active.get(task)
        had = next((holder for holder in holders if holder.process == owner), None)
        for holder in (had, self._least_loaded(task, self._set_of(standbys))):
            if holder is not None and not self._is_crowded(holder):
                return holder
        return self._least_loaded(task, holders) or holders[0]

    def _is_crowded(self, holder: TaskHolder) -> bool:
        """Returns whether it has a task for every thread and another client is less full."""
        if holder.count < holder.threads:
            return False
        fullness = self._fullness(holder)
        return any(self._fullness(other) < fullness for other in self._board.values())

    def _fullness(self, holder: TaskHolder) -> tuple[float, int]:
        """Returns a sort key; a smaller one means that the client is less full."""
        load = (len(holder.active) + len(holder.standby)) / holder.threads
        return load, -holder.threads if self._manners.is_former else 0

    def _least_loaded(self, task: TaskId, holders: Sequence[TaskHolder]) -> TaskHolder | None:
        """Returns an empty client, or the least loaded with a task not yet paired with this, or the least loaded."""
        nothing = math.inf, 0
        least, min_fullness = None, nothing
        fresh, fresh_fullness = None, nothing
        for holder in holders:
            if not holder.active and not holder.standby:
                return holder
            fullness = self._fullness(holder)
            if fullness < fresh_fullness and self._is_new_beside(task, holder):
                fresh, fresh_fullness = holder, fullness
            if fullness < min_fullness:
                least, min_fullness = holder, fullness
        return fresh or least

    def _is_new_beside(self, task: TaskId, holder: TaskHolder) -> bool:
        tasks = len(self._tasks)
        if len(self._neighbours) == tasks * (tasks - 1) // 2:
            return False
        mine = self._number[task]
        return any(
            _pair(mine, self._number[other]) not in self._neighbours for other in (*holder.active, *holder.standby)
        )

    def _set_of(self, holders: Sequence[TaskHolder]) -> Sequence[TaskHolder]:
        return [self._board[process] for process in processes_in_java_order(holder.process for holder in holders)]

    def _changelogged(self) -> Iterable[TaskInfo]:
        infos = [info for info in self._tasks.values() if info.is_changelogged]
        return infos if self._manners.is_former else in_java_order(infos, info_hash)


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
