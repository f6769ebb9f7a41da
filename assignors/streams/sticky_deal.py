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
    from samerack.assignors.streams.board import Board, Seat
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
        threads = sum(seat.threads for seat in self._board.values())
        quota = len(self._tasks) // threads
        left = dict.fromkeys(tasks_at_once(self._tasks))
        for task in tasks_in_java_order(self._active):
            seat = self._board[self._active[task]]
            if task in left and (self._manners.must_preserve_active or len(seat.active) < quota * seat.threads):
                self._give(task, seat, TaskType.ACTIVE)
                del left[task]
        for task in list(left):
            had = self._set_of([self._board[process] for process in self._standby.get(task, ())])
            roomy = next((seat for seat in had if len(seat.active) < quota * seat.threads), None)
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
                free = [seat for seat in self._board.values() if not seat.has(info.id)]
                if not free:
                    break
                if self._manners.tag_keys:
                    free = self._most_apart(info.id, free)
                self._give(info.id, self._best(info.id, self._set_of(free)), TaskType.STANDBY)

    def _most_apart(self, task: TaskId, seats: Sequence[Seat]) -> list[Seat]:
        """Returns the clients with the most tags that the task's copies do not have yet."""
        keys = self._manners.tag_keys
        there = {tag for seat in self._board.values() if seat.has(task) for tag in seat.tags.items() if tag[0] in keys}
        new = [sum(tag[0] in keys and tag not in there for tag in seat.tags.items()) for seat in seats]
        return [seat for seat, count in zip(seats, new, strict=True) if count == max(new)]

    def _give(self, task: TaskId, seat: Seat, kind: TaskType) -> None:
        mine = self._number[task]
        for other in (*seat.active, *seat.standby):
            self._neighbours.add(_pair(mine, self._number[other]))
        seat.give(task, kind)

    def _best(self, task: TaskId, seats: Sequence[Seat]) -> Seat:
        """Returns the best client for the task.

        This is the one that had it active, else the least loaded that had a standby, unless crowded; else the least
        loaded.
        """
        if len(seats) == 1:
            return seats[0]
        standbys = [seat for seat in seats if seat.process in self._standby.get(task, ())]
        owner = self._active.get(task)
        had = next((seat for seat in seats if seat.process == owner), None)
        for seat in (had, self._least_loaded(task, self._set_of(standbys))):
            if seat is not None and not self._is_crowded(seat):
                return seat
        return self._least_loaded(task, seats) or seats[0]

    def _is_crowded(self, seat: Seat) -> bool:
        """Returns whether it has a task for every thread and another client is less full."""
        if seat.count < seat.threads:
            return False
        fullness = self._fullness(seat)
        return any(self._fullness(other) < fullness for other in self._board.values())

    def _fullness(self, seat: Seat) -> tuple[float, int]:
        """Returns a sort key; a smaller one means that the client is less full."""
        load = (len(seat.active) + len(seat.standby)) / seat.threads
        return load, -seat.threads if self._manners.is_former else 0

    def _least_loaded(self, task: TaskId, seats: Sequence[Seat]) -> Seat | None:
        """Returns an empty client, or the least loaded with a task not yet paired with this, or the least loaded."""
        nothing = math.inf, 0
        least, least_fullness = None, nothing
        fresh, fresh_fullness = None, nothing
        for seat in seats:
            if not seat.active and not seat.standby:
                return seat
            fullness = self._fullness(seat)
            if fullness < fresh_fullness and self._is_new_beside(task, seat):
                fresh, fresh_fullness = seat, fullness
            if fullness < least_fullness:
                least, least_fullness = seat, fullness
        return fresh or least

    def _is_new_beside(self, task: TaskId, seat: Seat) -> bool:
        tasks = len(self._tasks)
        if len(self._neighbours) == tasks * (tasks - 1) // 2:
            return False
        mine = self._number[task]
        return any(_pair(mine, self._number[other]) not in self._neighbours for other in (*seat.active, *seat.standby))

    def _set_of(self, seats: Sequence[Seat]) -> Sequence[Seat]:
        return [self._board[process] for process in processes_in_java_order(seat.process for seat in seats)]

    def _changelogged(self) -> Iterable[TaskInfo]:
        infos = [info for info in self._tasks.values() if info.is_changelogged]
        return infos if self._manners.is_former else in_java_order(infos, info_hash)


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
