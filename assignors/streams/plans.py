"""Converts plans by name to arrays, and applies moved tasks to plans."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from samerack.assignors.model import AssignmentError
from samerack.assignors.streams.assignment import Assignments, KafkaStreamsAssignment, Plan, TaskType
from samerack.assignors.streams.intern import intern_tasks
from samerack.assignors.streams.model import TaskId
from samerack.assignors.streams.tags import unrestrained

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from samerack.assignors.model import Int32Array
    from samerack.assignors.streams.intern import Clients
    from samerack.assignors.streams.model import ApplicationState
    from samerack.assignors.streams.standby_model import Standbys

Move: TypeAlias = tuple[TaskId, int, int]
"""A task, and the clients that it leaves and goes to, by their number in ascending order."""


class Holder(Protocol):
    """A client with its tasks: in a plan, or while an assignor runs (`board.TaskHolder`)."""

    def of_type(self, kind: TaskType) -> AbstractSet[TaskId]:
        """Return its tasks of one kind."""
        ...


def complete(state: ApplicationState, assignments: Assignments) -> Plan:
    """Return the assignments in the order of the clients, with an empty one for every client that has none.

    Raises:
        AssignmentError: an assignment is for a client that the application does not know.
    """
    unknown = [process for process in assignments if process not in state.states]
    if unknown:
        raise AssignmentError(f"client {unknown[0]} has an assignment, but is not part of the application")
    return {
        process: assignments[process] if process in assignments else KafkaStreamsAssignment(process_id=process)
        for process in state.states
    }


def held_by(holders: Iterable[Holder], kind: TaskType, number: Mapping[TaskId, int]) -> tuple[Int32Array, Int32Array]:
    """Return the numbers of the tasks that clients have in one role, and the index of the client of each.

    Args:
        holders: all clients, ascending.
        kind: the role.
        number: the tasks that count.
    """
    held = [holder.of_type(kind) for holder in holders]
    sizes = [len(tasks) for tasks in held]
    task = np.fromiter(map(number.get, chain.from_iterable(held), repeat(-1)), np.int32, sum(sizes))
    client = np.repeat(np.arange(len(held), dtype=np.int32), sizes)
    return task[task >= 0], client[task >= 0]


def owners_of(scope: Sequence[TaskId], holders: Iterable[Holder], clients: Clients) -> Int32Array:
    """Return the client of each active task.

    Raises:
        AssignmentError: a task is not active on any client, or on several.
    """
    task, client = held_by(holders, TaskType.ACTIVE, {task: index for index, task in enumerate(scope)})
    owners = np.bincount(task, minlength=len(scope))
    if twice := np.flatnonzero(owners > 1).tolist():
        one, other, *_ = (clients.ids[at] for at in client[task == twice[0]].tolist())
        raise AssignmentError(f"task {scope[twice[0]]} is active on {one} and on {other}; keep one of them")
    if missing := np.flatnonzero(owners == 0).tolist():
        raise AssignmentError(f"task {scope[missing[0]]} is active nowhere; assign it before it is optimised")
    owner = np.empty(len(scope), np.int32)
    owner[task] = client
    return owner


def standbys_of(
    state: ApplicationState, scope: Sequence[TaskId], holders: Collection[Holder], clients: Clients
) -> Standbys:
    """Return the standbys of these tasks as arrays; all may stay, or go to any client without the task."""
    remote, remotes = intern_tasks(state, scope, TaskType.STANDBY, clients)
    number = {task: index for index, task in enumerate(scope)}
    task, client = held_by(holders, TaskType.STANDBY, number)
    order = np.lexsort((client, task))
    fixed_task, fixed_client = held_by(holders, TaskType.ACTIVE, number)
    rack = np.zeros(int(clients.group.max()) + 1, np.int32)
    rack[clients.group] = clients.rack
    return unrestrained(
        task=task[order],
        client=client[order],
        remote=remote,
        remotes=remotes,
        group=clients.group,
        rack=rack,
        fixed_task=fixed_task,
        fixed_client=fixed_client,
    )


def moves_of(tasks: Sequence[TaskId], task: Int32Array, old: Int32Array, new: Int32Array) -> list[Move]:
    """Return the moves of copies, by the number of their task and their clients before and after."""
    moved = old != new
    places = zip(task[moved].tolist(), old[moved].tolist(), new[moved].tolist(), strict=True)
    return [(tasks[index], one, other) for index, one, other in places]


def with_moved_actives(plan: Assignments, moves: Sequence[Move], *, keep_standbys: bool) -> Plan:
    """Return the plan of all clients, ascending, after these moves."""
    tasks = [dict(assignment.tasks) for assignment in plan.values()]
    for task, old, new in moves:
        del tasks[old][task]
        if keep_standbys and task in tasks[new]:
            tasks[old][task] = TaskType.STANDBY
        tasks[new][task] = TaskType.ACTIVE
    return _with_tasks(plan, tasks)


def with_moved_standbys(plan: Assignments, moves: Sequence[Move]) -> Plan:
    """Return the plan of all clients, ascending, after the standbys moved to their new clients."""
    tasks = [dict(assignment.tasks) for assignment in plan.values()]
    for task, old, _ in moves:
        del tasks[old][task]
    for task, _, new in moves:
        tasks[new][task] = TaskType.STANDBY
    return _with_tasks(plan, tasks)


def _with_tasks(plan: Assignments, tasks: Iterable[dict[TaskId, TaskType]]) -> Plan:
    return {
        process: replace(assignment, tasks=held)
        for (process, assignment), held in zip(plan.items(), tasks, strict=True)
    }
