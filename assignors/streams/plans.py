"""Converts plans by name to arrays, and applies moved tasks to plans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from samerack.assignors.model import AssignmentError
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.assignors.streams.intern import intern_tasks
from samerack.assignors.streams.tags import unrestrained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from samerack.assignors.model import Int32Array
    from samerack.assignors.streams.intern import Clients
    from samerack.assignors.streams.model import ApplicationState, ProcessId, TaskId
    from samerack.assignors.streams.standby_model import Standbys

    Assignments = Mapping[ProcessId, KafkaStreamsAssignment]


def complete(state: ApplicationState, assignments: Assignments) -> dict[ProcessId, KafkaStreamsAssignment]:
    """Returns the assignments in the order of the clients, with an empty one for every client that has none.

    Raises:
        AssignmentError: an assignment is for a client that the application does not know.
    """
    unknown = [process for process in assignments if process not in state.states]
    if unknown:
        raise AssignmentError(f"client {unknown[0]} has an assignment, but is not part of the application")
    return {process: assignments.get(process, KafkaStreamsAssignment(process_id=process)) for process in state.states}


def owners_of(scope: list[TaskId], plan: Assignments, clients: Clients) -> Int32Array:
    """Returns the client of each active task.

    Raises:
        AssignmentError: a task is not active on any client, or on several.
    """
    wanted = set(scope)
    owner: dict[TaskId, ProcessId] = {}
    for process, assignment in plan.items():
        for task, role in assignment.tasks.items():
            if role is TaskType.ACTIVE and task in wanted and owner.setdefault(task, process) != process:
                raise AssignmentError(f"task {task} is active on {owner[task]} and on {process}; keep one of them")
    missing = next((task for task in scope if task not in owner), None)
    if missing is not None:
        raise AssignmentError(f"task {missing} is active nowhere; assign it before it is optimised")
    return np.array([clients.index[owner[task]] for task in scope], np.int32)


def with_moved_actives(
    plan: Assignments, clients: Clients, moves: list[tuple[TaskId, int, int]], *, keep_standbys: bool
) -> dict[ProcessId, KafkaStreamsAssignment]:
    """Returns the plan after these moves (task, from, to)."""
    tasks = {process: dict(assignment.tasks) for process, assignment in plan.items()}
    for task, old, new in moves:
        source, target = tasks[clients.ids[old]], tasks[clients.ids[new]]
        del source[task]
        if keep_standbys and task in target:
            source[task] = TaskType.STANDBY
        target[task] = TaskType.ACTIVE
    return {process: replace(assignment, tasks=tasks[process]) for process, assignment in plan.items()}


def standbys_of(state: ApplicationState, scope: list[TaskId], plan: Assignments, clients: Clients) -> Standbys:
    """Returns the standbys of these tasks as arrays; all may stay, or go to any client without the task."""
    remote, remotes = intern_tasks([state.all_tasks[task] for task in scope], TaskType.STANDBY, clients)
    number = {task: index for index, task in enumerate(scope)}
    held = {TaskType.ACTIVE: [(0, 0)][:0], TaskType.STANDBY: [(0, 0)][:0]}
    for process, assignment in plan.items():
        for task, role in assignment.tasks.items():
            if task in number:
                held[role].append((number[task], clients.index[process]))
    standby = np.array(sorted(held[TaskType.STANDBY]), np.int32).reshape(-1, 2)
    fixed = np.array(held[TaskType.ACTIVE], np.int32).reshape(-1, 2)
    rack = np.zeros(int(clients.group.max()) + 1, np.int32)
    rack[clients.group] = clients.rack
    return unrestrained(
        task=standby[:, 0],
        client=standby[:, 1],
        remote=remote,
        remotes=remotes,
        group=clients.group,
        rack=rack,
        fixed_task=fixed[:, 0],
        fixed_client=fixed[:, 1],
    )


def with_moved_standbys(
    plan: Assignments, clients: Clients, scope: list[TaskId], standbys: Standbys, placed: Int32Array
) -> dict[ProcessId, KafkaStreamsAssignment]:
    """Returns the plan after the standbys moved to their new clients."""
    tasks = {process: dict(assignment.tasks) for process, assignment in plan.items()}
    moved = np.flatnonzero(placed != standbys.client)
    for task, client in zip(standbys.task[moved].tolist(), standbys.client[moved].tolist(), strict=True):
        del tasks[clients.ids[client]][scope[task]]
    for task, client in zip(standbys.task[moved].tolist(), placed[moved].tolist(), strict=True):
        tasks[clients.ids[client]][scope[task]] = TaskType.STANDBY
    return {process: replace(assignment, tasks=tasks[process]) for process, assignment in plan.items()}
