"""Streams applications for assignor tests: from short strings, at random, or after an assignment has taken effect."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from samerack.assignors.streams.application import (
    LATEST_OFFSET,
    ApplicationState,
    AssignmentConfigs,
    KafkaStreamsState,
    ProcessId,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
    task_id,
)
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.offline.streams_json import Application, parse
from tests.parity.streams_cases import random_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from samerack.assignors.streams.plugin import TaskAssignment

EVERYTHING = 100_000
"""The lag of a client that has no data of a task."""

Names = dict[str, set[str]]


def process(number: int) -> ProcessId:
    """The process id of client `number`."""
    return ProcessId(uuid=UUID(int=number))


def tasks(
    stateful: str = "", stateless: str = "", *, source: str | Iterable[str] = "a", changelog: str = "a"
) -> dict[TaskId, TaskInfo]:
    """Tasks from space-separated names, with one source each and, if stateful, a changelog.

    Args:
        stateful: such as "0_0 0_1".
        stateless: in the same format.
        source: racks of the sources' replicas, one for all or one for each task.
        changelog: racks of all changelogs' replicas, a letter each.
    """
    names = [*stateful.split(), *stateless.split()]
    racks = [source] * len(names) if isinstance(source, str) else list(source)
    made = {}
    for name, near in zip(names, racks, strict=True):
        task = task_id(name)
        partitions = [TaskTopicPartition(topic="source", partition=task.partition, racks=frozenset(near))]
        if name in stateful.split():
            partitions.append(
                TaskTopicPartition(
                    topic="changelog",
                    partition=task.partition,
                    is_source=False,
                    is_changelog=True,
                    racks=frozenset(changelog),
                )
            )
        made[task] = TaskInfo(id=task, is_stateful=name in stateful.split(), topic_partitions=tuple(partitions))
    return made


def application(infos: Mapping[TaskId, TaskInfo], *clients: dict[str, Any], **configs: Any) -> ApplicationState:
    """An application; the lag of a stateful task is `EVERYTHING` unless it is given or the client runs the task.

    Args:
        infos: the tasks.
        clients: of each, `rack`, `threads`, `tags`, `active` and `standby` (space-separated names), `lags` (by name).
        configs: settings.
    """
    stateful = [task for task, info in infos.items() if info.is_stateful]
    states = {}
    for number, client in enumerate(clients, start=1):
        active = frozenset(map(task_id, client.get("active", "").split()))
        lags = dict.fromkeys(stateful, EVERYTHING)
        lags.update({task: LATEST_OFFSET for task in active if task in lags})
        lags.update({task_id(name): lag for name, lag in client.get("lags", {}).items()})
        states[process(number)] = KafkaStreamsState(
            process_id=process(number),
            num_processing_threads=client.get("threads", 1),
            consumer_client_ids=(f"consumer-{number}",),
            previous_active_tasks=active,
            previous_standby_tasks=frozenset(map(task_id, client.get("standby", "").split())),
            lags=lags,
            client_tags=client.get("tags", {}),
            rack_id=client.get("rack"),
        )
    return ApplicationState(states=states, all_tasks=infos, assignment_configs=AssignmentConfigs(**configs))


def random_application(seed: int, assignor: str) -> ApplicationState:
    """The application of a random case."""
    return Application(parse(json.dumps(random_case(seed, assignor)))).state


def actives(answer: TaskAssignment) -> list[str]:
    """The active tasks of each client, one string for each client."""
    return [_line(assignment, TaskType.ACTIVE) for assignment in answer.assignment]


def standbys(answer: TaskAssignment) -> list[str]:
    """The standby tasks of each client, one string for each client."""
    return [_line(assignment, TaskType.STANDBY) for assignment in answer.assignment]


def _line(assignment: KafkaStreamsAssignment, kind: TaskType) -> str:
    return " ".join(str(task) for task in sorted(assignment.of_type(kind)))


def after(state: ApplicationState, answer: TaskAssignment) -> ApplicationState:
    """The application after the assignment has taken effect and every copy has caught up."""
    states = {}
    for assignment in answer.assignment:
        client = state.states[assignment.process_id]
        active, standby = assignment.of_type(TaskType.ACTIVE), assignment.of_type(TaskType.STANDBY)
        lags = dict(client.lags or {})
        for task, lag in lags.items():
            if task in active:
                lags[task] = LATEST_OFFSET
            elif task in standby or lag == LATEST_OFFSET:
                lags[task] = 0
        states[client.process_id] = replace(
            client, previous_active_tasks=active, previous_standby_tasks=standby, lags=lags
        )
    return replace(state, states=states)


def copies(answer: TaskAssignment, kind: TaskType) -> dict[TaskId, int]:
    """The number of clients that have each task in that role."""
    counts: dict[TaskId, int] = {}
    for assignment in answer.assignment:
        for task in assignment.of_type(kind):
            counts[task] = counts.get(task, 0) + 1
    return counts
