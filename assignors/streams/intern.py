"""Converts an application by name to arrays, and back: clients, racks, tags, what tasks read, plans, and moves."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from samerack.assignors.arrays import combine, count_rows, dense_rank, first_of_each
from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.application import TaskId
from samerack.assignors.streams.assignment import Assignments, KafkaStreamsAssignment, Plan, TaskType
from samerack.assignors.streams.evaluate import reads_of, weight_across
from samerack.assignors.streams.tags import unrestrained

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from samerack.assignors.problem import Int32Array, Int64Array
    from samerack.assignors.streams.application import ApplicationState, ProcessId
    from samerack.assignors.streams.standby import Standbys


RACK_KEY: Final = "client.rack"
"""Tag key for a client's rack if racks count as tags; it is not a valid `client.tag.` key."""

Move: TypeAlias = tuple[TaskId, int, int]
"""A task, and the clients that it leaves and goes to, by their number in ascending order."""


class Holder(Protocol):
    """A client with its tasks: in a plan, or while an assignor runs (`board.TaskHolder`)."""

    def of_type(self, kind: TaskType) -> AbstractSet[TaskId]:
        """Return its tasks of one kind."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """C clients in G groups of one rack and equal tags.

    Attributes:
        ids: [C] clients, ascending.
        racks: the R rack names.
        rack: [C] rack of the client.
        group: [C] group of the client.
        tags: [G] the (key, value) pairs of the group's clients.
    """

    ids: tuple[ProcessId, ...]
    racks: tuple[str, ...]
    rack: Int32Array
    group: Int32Array
    tags: tuple[frozenset[tuple[str, str]], ...]


def intern_clients(state: ApplicationState, tag_keys: Sequence[str] = (), *, rack_is_tag: bool = False) -> Clients:
    """Convert the clients of an application in which all clients have racks.

    Args:
        state: the application.
        tag_keys: the keys of client tags that matter.
        rack_is_tag: whether the rack counts as a tag, too.
    """
    ids = tuple(state.states)
    racks = tuple(sorted({client.rack_id or "" for client in state.states.values()}))
    rack_index = {rack: index for index, rack in enumerate(racks)}
    rack = np.array([rack_index[client.rack_id or ""] for client in state.states.values()], np.int32)
    tags = [
        frozenset((key, client.client_tags[key]) for key in tag_keys if key in client.client_tags)
        | (frozenset({(RACK_KEY, client.rack_id or "")}) if rack_is_tag else frozenset())
        for client in state.states.values()
    ]
    numbers: dict[frozenset[tuple[str, str]], int] = {}
    tag = np.array([numbers.setdefault(value, len(numbers)) for value in tags], np.int32)
    group, count = combine(rack, max(len(racks), 1), tag, max(len(numbers), 1))
    some = first_of_each(group, count)
    return Clients(
        ids=ids,
        racks=racks,
        rack=rack,
        group=group,
        tags=tuple(tags[index] for index in some.tolist()),
    )


def intern_tasks(
    state: ApplicationState, tasks: Sequence[TaskId], kind: TaskType, clients: Clients, *, compatible: bool = False
) -> tuple[Int32Array, Int64Array]:
    """Return the weight of the cross-rack partitions of each task by rack of the reader.

    The result has the form of `ActiveTasks.remote` and `ActiveTasks.remotes`.
    """
    reads = reads_of(state, kind, compatible=compatible)
    remote = [[weight_across(read, rack) for rack in clients.racks] for read in reads.distinct]
    number = np.fromiter(map(reads.number.__getitem__, tasks), np.int64, len(tasks))
    return count_rows(list(np.array(remote, np.int64).reshape(-1, len(clients.racks))[number].T))


def intern_subtopologies(tasks: Sequence[TaskId]) -> Int32Array:
    """Return [T] the number of each task's subtopology; different named topologies have different numbers."""
    numbers: dict[tuple[str, int], int] = {}
    raw = np.array([numbers.setdefault((task.topology, task.subtopology), len(numbers)) for task in tasks], np.int32)
    return dense_rank(raw, max(len(numbers), 1))[0]


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
