"""Places whole Kafka Streams tasks in a group's assignment problem, where members are threads and clients have several.

The plan is that of KIP-925's `min_traffic`: tasks go round to clients, are balanced over their threads, and are then
exchanged at least cost. It is a plan of the group's `Problem`, so that it costs what any other plan of it costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np

from samerack.assignors.arrays import count_rows
from samerack.assignors.problem import NOBODY, BoolArray, Int32Array, Int64Array, Problem
from samerack.assignors.streams.active import ActiveTasks, Costs, optimize_active
from samerack.assignors.streams.application import KafkaStreamsState, ProcessId, TaskId
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.board import Board, balance_over_threads, deal_in_turn

_COSTS: Final = Costs(traffic=1, non_overlap=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTasks:
    """The tasks of a group: N tasks, ascending, over the P partitions, and C clients, ascending, over the M members.

    Attributes:
        task: [P] the task that reads the partition, or NOBODY if it is not known.
        client: [M] the client of the member.
    """

    task: Int32Array
    client: Int32Array


def whole_tasks(
    problem: Problem, tasks: Sequence[Sequence[tuple[str, int]]], clients: Mapping[str, int]
) -> WholeTasks | None:
    """Return the tasks of a group.

    Args:
        problem: the group.
        tasks: the partitions that each task reads, tasks ascending; those that the problem lacks are left out.
        clients: the client of each member, 0 and up.

    Returns:
        The tasks, or None where a member's client is not known, or no task reads a partition of the problem.
    """
    if not problem.members or any(member not in clients for member in problem.members):
        return None
    topics = {topic: index for index, topic in enumerate(problem.topics)}
    starts = np.searchsorted(problem.topic_of, np.arange(len(topics) + 1))
    task = np.full(len(problem.topic_of), NOBODY, np.int32)
    for index, partitions in enumerate(tasks):
        for topic, number in partitions:
            at = topics.get(topic)
            if at is not None and number < starts[at + 1] - starts[at]:
                task[starts[at] + number] = index
    if (task == NOBODY).all():
        return None
    _, client = np.unique([clients[member] for member in problem.members], return_inverse=True)
    return WholeTasks(task=task, client=client.astype(np.int32))


def min_traffic_plan(problem: Problem, whole: WholeTasks) -> Int32Array:
    """Return [P] owners in the balanced plan that reads least across racks, by weight; every task stays whole.

    Partitions of no known task keep their owners. Clients whose members differ in rack have none, as in KIP-925.
    """
    known = whole.task != NOBODY
    _, dense = np.unique(whole.task[known], return_inverse=True)
    count = int(dense.max()) + 1
    weight = np.ones(len(known), np.int64) if problem.weights is None else problem.weights
    places, place = _places(problem, whole)
    columns = [_sums(dense, (_crossing(problem, *one) * weight)[known], count) for one in places]
    rows, remotes = count_rows(columns)
    client = optimize_active(
        ActiveTasks(
            subtopology=np.zeros(count, np.int32),
            remote=rows,
            remotes=remotes,
            rack=place,
            client=_dealt(count, np.bincount(whole.client)),
        ),
        _COSTS,
        balance=False,
    )
    owner = problem.owner.copy()
    owner[known] = _threads(client, whole.client)[dense]
    return owner


def _sums(task: Int64Array, weight: Int64Array, count: int) -> Int64Array:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, task, weight)
    return sums


def _places(problem: Problem, whole: WholeTasks) -> tuple[list[tuple[int, bool]], Int32Array]:
    """Return the places of clients, a rack or NOBODY and whether any replica there serves them, and [C] indices."""
    racks: list[set[int]] = [set() for _ in range(int(whole.client.max()) + 1)]
    any_replica = [True] * len(racks)
    facts = zip(whole.client.tolist(), problem.member_rack.tolist(), problem.reads_any_replica.tolist(), strict=True)
    for client, rack, reads in facts:
        racks[client].add(rack)
        any_replica[client] = any_replica[client] and reads
    of_client = [(min(own) if len(own) == 1 else NOBODY, any_replica[one]) for one, own in enumerate(racks)]
    numbers: dict[tuple[int, bool], int] = {}
    place = np.array([numbers.setdefault(one, len(numbers)) for one in of_client], np.int32)
    return list(numbers), place


def _crossing(problem: Problem, rack: int, any_replica: bool) -> BoolArray:  # noqa: FBT001 - the parts of a place
    """Return [P] whether a client there reads the partition across racks; one of unknown rack reads none across."""
    near: BoolArray = problem.leader_rack == rack
    if rack == NOBODY:
        return np.zeros_like(near)
    return ~(near | problem.replica_racks[:, rack]) if any_replica else ~near


def _dealt(tasks: int, threads: Int64Array) -> Int32Array:
    """Return [N] the client of each task in a plan that is balanced over threads."""
    board = Board(
        KafkaStreamsState(process_id=ProcessId(uuid=UUID(int=client)), num_processing_threads=count)
        for client, count in enumerate(threads.tolist())
    )
    deal_in_turn(board, [TaskId(subtopology=0, partition=index) for index in range(tasks)])
    balance_over_threads(board, TaskType.ACTIVE)
    result = np.empty(tasks, np.int32)
    for client, holder in enumerate(board.values()):
        for task in holder.active:
            result[task.partition] = client
    return result


def _threads(client: Int32Array, of_member: Int32Array) -> Int32Array:
    """Return [N] the member that runs each task: the tasks of a client go round to its threads."""
    order = np.argsort(client, kind="stable")
    ordered = client[order]
    turn = np.arange(len(client)) - np.searchsorted(ordered, ordered)
    members = np.argsort(of_member, kind="stable")
    first = np.searchsorted(of_member[members], np.arange(int(of_member.max()) + 2))
    count = np.diff(first)
    result = np.empty(len(client), np.int32)
    result[order] = members[first[ordered] + turn % count[ordered]]
    return result
