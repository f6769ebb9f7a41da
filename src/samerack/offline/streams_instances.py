"""Applications to compare strategies on: made by counting, so that everybody gets the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from samerack.assignors.streams.configs import Strategy
from samerack.assignors.streams.model import ApplicationState, ProcessId
from samerack.offline.streams_json import Application, Client, Partition, Question, Task

if TYPE_CHECKING:
    from samerack.assignors.streams.assignment import KafkaStreamsAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An application and where its actives are.

    Attributes:
        name: what is special about it.
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

STRIDES: Final = {"source": 1, "other": 7, "changelog": 11}
"""How replicas of source, second source and changelog run around the racks: unlike each other, as in real clusters."""


def instances() -> list[Instance]:
    """All of them."""
    return [instance_of(shape.name, _question(shape)) for shape in _SHAPES]


def instance_of(name: str, question: Question) -> Instance:
    """Return the application of a question.

    Raises:
        QuestionError: a client is named that is not there, or an id is none.
        AssignmentError: a value does not fit.
    """
    application = Application(question)
    return Instance(name=name, state=application.state, plan=application.assignments())


def _question(shape: _Shape) -> Question:
    clients = [
        Client(id=str(number), rack=rack, threads=shape.threads[number % len(shape.threads)])
        for number, rack in enumerate(shape.client_racks)
    ]
    tasks = [
        _task(shape, subtopology, partition)
        for subtopology in range(SUBTOPOLOGIES)
        for partition in range(shape.partitions)
    ]
    turns = [client.id for client in clients for _ in range(client.threads)]
    assignment: dict[str, list[str]] = {client.id: [] for client in clients}
    for number, task in enumerate(tasks):
        assignment[turns[number % len(turns)]].append(f"{task.subtopology}_{task.partition}")
    return Question(
        clients=clients,
        tasks=tasks,
        assignment=assignment,
        num_standby_replicas=shape.standbys,
        strategy=Strategy.MIN_TRAFFIC.value,
        traffic_cost=10,
        non_overlap_cost=1,
    )


def _task(shape: _Shape, subtopology: int, partition: int) -> Task:
    """Return a task with one source, two in the second subtopology, and a changelog unless it is of the last."""
    stateful = subtopology < SUBTOPOLOGIES - 1
    topics = ["source", *(["other"] if subtopology == 1 else []), *(["changelog"] if stateful else [])]
    return Task(
        subtopology=subtopology,
        partition=partition,
        stateful=stateful,
        partitions=[
            Partition(
                topic=f"{topic}-{subtopology}",
                partition=partition,
                source=topic != "changelog",
                changelog=topic == "changelog",
                racks=_replicas(shape, subtopology, partition, STRIDES[topic]),
            )
            for topic in topics
        ],
    )


def _replicas(shape: _Shape, subtopology: int, partition: int, stride: int) -> list[str]:
    around = shape.replica_racks
    first = partition * stride + partition // len(around) + subtopology
    return sorted({around[(first + step) % len(around)] for step in range(shape.replication)})
