"""The tasks of all clients while an assignor runs: the only mutable state that the steps of an assignor share.

A board is private to one assignor; results are frozen values (`KafkaStreamsAssignment`). Tasks are first dealt evenly
over threads: KIP-441's balanced target, before racks and lags are considered.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.assignment import Assignments, Plan, TaskType, assignment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from samerack.assignors.streams.application import KafkaStreamsState, ProcessId, TaskId
    from samerack.assignors.streams.intern import Move


class TaskHolder:
    """One client and the tasks that it has so far; load is tasks per thread."""

    __slots__ = ("active", "process", "rack", "standby", "tags", "threads")

    def __init__(self, client: KafkaStreamsState) -> None:
        self.process: ProcessId = client.process_id
        self.threads: int = client.num_processing_threads
        self.rack: str = client.rack_id or ""
        self.tags: Mapping[str, str] = client.client_tags
        self.active: set[TaskId] = set()
        self.standby: set[TaskId] = set()

    @property
    def count(self) -> int:
        """Returns the number of tasks of both kinds."""
        return len(self.active) + len(self.standby)

    @property
    def load(self) -> float:
        """Returns the tasks of both kinds per thread (KIP-925, 3: taskLoad)."""
        return (len(self.active) + len(self.standby)) / self.threads

    @property
    def active_load(self) -> float:
        """Returns the active tasks per thread."""
        return len(self.active) / self.threads

    def of_type(self, kind: TaskType) -> set[TaskId]:
        """Return its tasks of one kind, not a copy."""
        return self.active if kind is TaskType.ACTIVE else self.standby

    def has(self, task: TaskId) -> bool:
        """Return whether it has the task in either role."""
        return task in self.active or task in self.standby

    def give(self, task: TaskId, kind: TaskType) -> None:
        """Add a task.

        Raises:
            AssignmentError: it already has the task, in any role: a bug of the assignor.
        """
        if task in self.active or task in self.standby:
            raise AssignmentError(f"client {self.process} has task {task} already; it cannot have it twice")
        (self.active if kind is TaskType.ACTIVE else self.standby).add(task)


class Board(dict["ProcessId", TaskHolder]):
    """The holders of all clients, by process id, in ascending order."""

    def __init__(self, clients: Iterable[KafkaStreamsState]) -> None:
        super().__init__((client.process_id, TaskHolder(client)) for client in clients)

    def move_actives(self, moves: Sequence[Move], *, keep_standbys: bool) -> None:
        """Move actives; a standby of the task on the new client goes back in exchange, or away."""
        holders = list(self.values())
        for task, old, new in moves:
            source, target = holders[old], holders[new]
            source.active.remove(task)
            if task in target.standby:
                target.standby.remove(task)
                if keep_standbys:
                    source.standby.add(task)
            target.active.add(task)

    def move_standbys(self, moves: Sequence[Move]) -> None:
        """Move standbys, also several of one task in a circle."""
        holders = list(self.values())
        for task, old, _ in moves:
            holders[old].standby.remove(task)
        for task, _, new in moves:
            holders[new].give(task, TaskType.STANDBY)

    def assignments(self) -> Plan:
        """Return the assignments of all clients, as values."""
        return {
            process: assignment_of(
                process,
                active=sorted(holder.active),
                standby=sorted(holder.standby),
            )
            for process, holder in self.items()
        }

    def tasks_in(self, plan: Assignments) -> Plan:
        """Return the plan of all clients with the tasks of the board; follow-up rebalances stay."""
        return {process: replace(plan[process], tasks=one.tasks) for process, one in self.assignments().items()}

    def put(self, assignments: Assignments) -> None:
        """Replace the tasks of all clients by these."""
        for process, holder in self.items():
            holder.active = set(assignments[process].of_type(TaskType.ACTIVE))
            holder.standby = set(assignments[process].of_type(TaskType.STANDBY))


def deal_in_turn(board: Board, tasks: Iterable[TaskId]) -> None:
    """Give ascending tasks to ascending clients as actives, one each, in turn (KIP-925, 3, step 1)."""
    for task, holder in zip(sorted(tasks), cycle(board.values()), strict=False):
        holder.give(task, TaskType.ACTIVE)


def deal_by_active_load(board: Board, tasks: Iterable[TaskId]) -> None:
    """Give each task, ascending, to the client with the fewest actives per thread (KIP-925, 3, step 7).

    Complexity: O(log clients) for each task.
    """
    queue = [(holder.active_load, order, holder) for order, holder in enumerate(board.values())]
    heapq.heapify(queue)
    for task in sorted(tasks):
        _, order, holder = queue[0]
        holder.give(task, TaskType.ACTIVE)
        heapq.heapreplace(queue, (holder.active_load, order, holder))


def balance_over_threads(
    board: Board, kind: TaskType, allowed: Callable[[TaskHolder, TaskHolder], bool] = lambda *_: True
) -> None:
    """Move tasks of one kind to less loaded clients until no move improves the balance (KIP-925, 3, steps 2 and 4).

    A task moves if the source's load (tasks of both kinds per thread) is afterwards at least that of the target.
    Clients and their tasks are processed in ascending order, so equal boards are balanced in the same way.

    Args:
        board: the board, which is changed.
        kind: the kind of tasks that may move.
        allowed: whether tasks may go from one client to another at all.

    Complexity: O(clients) for each client that has tasks to give and each task that moves.
    """
    holders = list(board.values())
    changed = True
    while changed:
        changed = False
        least = min(map(_after_one_more, holders), default=0.0)
        for source in holders:
            if _after_one_less(source) < least:
                continue
            for target in holders:
                if target is not source and _even_out(source, target, kind, allowed):
                    changed = True
                    least = min(map(_after_one_more, holders))


def _even_out(
    source: TaskHolder, target: TaskHolder, kind: TaskType, allowed: Callable[[TaskHolder, TaskHolder], bool]
) -> bool:
    """Move tasks that even out the loads of these two clients; return whether any moved."""
    if _after_one_less(source) < _after_one_more(target) or not allowed(source, target):
        return False
    moved = False
    for task in sorted(source.of_type(kind)):
        if _after_one_less(source) < _after_one_more(target):
            break
        if not target.has(task):
            source.of_type(kind).remove(task)
            target.give(task, kind)
            moved = True
    return moved


def _after_one_less(holder: TaskHolder) -> float:
    return (holder.count - 1) / holder.threads


def _after_one_more(holder: TaskHolder) -> float:
    return (holder.count + 1) / holder.threads
