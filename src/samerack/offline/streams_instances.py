"""Applications to compare strategies on: made by counting, so that everybody gets the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from samerack.assignors.streams.assignment import KafkaStreamsAssignment, assignment_of
from samerack.assignors.streams.configs import AssignmentConfigs, Strategy
from samerack.assignors.streams.model import (
    ApplicationState,
    KafkaStreamsState,
    ProcessId,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An application and where its actives are.

    Attributes:
        name: what is special about it.
        state: the application.
        plan: actives dealt in turn to the threads.
    """

    name: str
    state: ApplicationState
    plan: dict[ProcessId, KafkaStreamsAssignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    name: str
    client_racks: str
    replica_racks: str
    replication: int
    partitions: int
    standbys: int
    threads: tuple[int, ...] = (1,)


_SHAPES: Final = (
    _Shape(name="even", client_racks="abc" * 2, replica_racks="abc", replication=2, partitions=24, standbys=1),
    _Shape(name="one replica", client_racks="abc" * 3, replica_racks="abc", replication=1, partitions=36, standbys=1),
    _Shape(name="skewed clients", client_racks="aaaabc", replica_racks="abc", replication=1, partitions=30, standbys=1),
    _Shape(
        name="skewed replicas",
        client_racks="abcd" * 2,
        replica_racks="aaabcd",
        replication=1,
        partitions=40,
        standbys=1,
    ),
    _Shape(
        name="unequal threads",
        client_racks="abcabc",
        replica_racks="abc",
        replication=1,
        partitions=42,
        standbys=1,
        threads=(1, 2, 4),
    ),
    _Shape(
        name="two standbys", client_racks="abcde" * 2, replica_racks="abcde", replication=2, partitions=50, standbys=2
    ),
    _Shape(name="large", client_racks="abcde" * 8, replica_racks="abbcdee", replication=2, partitions=300, standbys=1),
)

SUBTOPOLOGIES: Final = 3
"""The last one has no state."""

STRIDES: Final = (1, 7, 11)
"""How replicas of source, second source and changelog run around the racks: unlike each other, as in real clusters."""


def instances() -> list[Instance]:
    """All of them."""
    return [_instance(shape) for shape in _SHAPES]


def _instance(shape: _Shape) -> Instance:
    processes = [ProcessId(uuid=UUID(int=number + 1)) for number in range(len(shape.client_racks))]
    threads = [shape.threads[number % len(shape.threads)] for number in range(len(processes))]
    tasks = [
        TaskId(subtopology=subtopology, partition=partition)
        for subtopology in range(SUBTOPOLOGIES)
        for partition in range(shape.partitions)
    ]
    turns = [process for process, count in zip(processes, threads, strict=True) for _ in range(count)]
    state = ApplicationState(
        states={
            process: KafkaStreamsState(process_id=process, num_processing_threads=count, rack_id=rack)
            for process, count, rack in zip(processes, threads, shape.client_racks, strict=True)
        },
        all_tasks={task: _info(shape, task) for task in tasks},
        assignment_configs=AssignmentConfigs(
            num_standby_replicas=shape.standbys,
            rack_aware_assignment_strategy=Strategy.MIN_TRAFFIC.value,
            rack_aware_traffic_cost=10,
            rack_aware_non_overlap_cost=1,
        ),
    )
    plan = {
        process: assignment_of(
            process, active=[task for number, task in enumerate(tasks) if turns[number % len(turns)] == process]
        )
        for process in processes
    }
    return Instance(name=shape.name, state=state, plan=plan)


def _info(shape: _Shape, task: TaskId) -> TaskInfo:
    """A task with one source, two in the second subtopology, and a changelog unless it is of the last."""
    stateful = task.subtopology < SUBTOPOLOGIES - 1
    topics = ["source", *(["other"] if task.subtopology == 1 else []), *(["changelog"] if stateful else [])]
    return TaskInfo(
        id=task,
        is_stateful=stateful,
        topic_partitions=tuple(
            TaskTopicPartition(
                topic=f"{topic}-{task.subtopology}",
                partition=task.partition,
                is_source=topic != "changelog",
                is_changelog=topic == "changelog",
                racks=_replicas(shape, task, STRIDES[("source", "other", "changelog").index(topic)]),
            )
            for topic in topics
        ),
    )


def _replicas(shape: _Shape, task: TaskId, stride: int) -> frozenset[str]:
    around = shape.replica_racks
    first = task.partition * stride + task.partition // len(around) + task.subtopology
    return frozenset(around[(first + step) % len(around)] for step in range(shape.replication))
