"""Converts the clients, racks and tags of an application to small integers, and tasks to cross-rack read counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.arrays import combine, count_rows, dense_rank, first_of_each
from samerack.assignors.streams.reads import reads_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from samerack.assignors.model import Int32Array, Int64Array
    from samerack.assignors.streams.assignment import TaskType
    from samerack.assignors.streams.model import ApplicationState, ProcessId, TaskId


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


RACK_KEY: Final = "client.rack"
"""Tag key for a client's rack if racks count as tags; it is not a valid `client.tag.` key."""


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
    remote = [
        [sum(weight for near, weight in read if rack not in (near or ())) for rack in clients.racks]
        for read in reads.distinct
    ]
    number = np.fromiter(map(reads.number.__getitem__, tasks), np.int64, len(tasks))
    return count_rows(list(np.array(remote, np.int64).reshape(-1, len(clients.racks))[number].T))


def intern_subtopologies(tasks: Sequence[TaskId]) -> Int32Array:
    """Return [T] the number of each task's subtopology; different named topologies have different numbers."""
    numbers: dict[tuple[str, int], int] = {}
    raw = np.array([numbers.setdefault((task.topology, task.subtopology), len(numbers)) for task in tasks], np.int32)
    return dense_rank(raw, max(len(numbers), 1))[0]
