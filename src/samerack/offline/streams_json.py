"""Streams questions as JSON: what one may hold, and the application that it describes.

The format is the one in which assignors of several languages can be compared line by line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from pydantic import Field

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.application import (
    ApplicationState,
    AssignmentConfigs,
    KafkaStreamsState,
    ProcessId,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
    task_id,
)
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, assignment_of
from samerack.assignors.streams.optimize import RackAwareOptimizationParams
from samerack.offline.assign_json import QuestionPart, read
from samerack.offline.json_lines import QuestionError

if TYPE_CHECKING:
    from collections.abc import Iterable

CONFIGS: Final = AssignmentConfigs()


class Partition(QuestionPart):
    """A topic partition of a task; `racks` null or empty where they are unknown."""

    topic: str
    partition: int
    racks: list[str] | None = None
    source: bool = True
    changelog: bool = False


class Task(QuestionPart):
    """A task."""

    subtopology: int
    partition: int
    stateful: bool = False
    partitions: list[Partition] | None = None


class Client(QuestionPart):
    """A client; its `uuid` orders clients, by default they keep the order of the list.

    `rack` may be a list with the rack of each of its consumers: they have a rack only together.
    """

    id: str
    rack: str | list[str | None] | None = None
    threads: int = 1
    tags: dict[str, str] | None = None
    uuid: str | None = None


class StreamsQuestion(QuestionPart):
    """An application, where its tasks are, and what is asked about it."""

    clients: list[Client]
    tasks: list[Task]
    assignment: dict[str, list[str]] = Field(default_factory=dict)
    standby: dict[str, list[str]] = Field(default_factory=dict)
    kind: Literal["active", "standby"] = "active"
    strategy: str = "none"
    traffic_cost: int | None = None
    non_overlap_cost: int | None = None
    traffic_cost_override: int | None = None
    non_overlap_cost_override: int | None = None
    tasks_to_optimize: Literal["stateful", "stateless"] | list[str] | None = None
    assignor: str | None = None
    must_preserve_active: bool = False
    previous_active: dict[str, list[str]] = Field(default_factory=dict)
    previous_standby: dict[str, list[str]] = Field(default_factory=dict)
    lags: dict[str, dict[str, int]] | None = None
    num_standby_replicas: int = CONFIGS.num_standby_replicas
    acceptable_recovery_lag: int = CONFIGS.acceptable_recovery_lag
    max_warmup_replicas: int = CONFIGS.max_warmup_replicas
    probing_rebalance_interval_ms: int = CONFIGS.probing_rebalance_interval_ms
    rack_aware_assignment_tags: list[str] | None = None
    now_ms: int = 0
    compatible: bool = False
    order: Literal["sorted", "hash"] = "sorted"
    repeat: int = Field(default=1, ge=1)
    cmd: str | None = None
    case: Any = None


def parse(data: bytes | str, *, known_keys_only: bool = False) -> StreamsQuestion:
    """Return the question in a JSON text; errors are those of `assign_json.read`."""
    return read(StreamsQuestion, data, known_keys_only=known_keys_only, see="samerack assign --help")


class Application:
    """The application that a question describes, with the question's names of its clients."""

    def __init__(self, question: StreamsQuestion) -> None:
        """Translate the names.

        Raises:
            QuestionError: a client is named that is not there, or an id is not valid.
            AssignmentError: a value does not fit.
        """
        self.question = question
        self.process = {client.id: _process(client, number) for number, client in enumerate(question.clients, start=1)}
        if len(set(self.process.values())) < len(question.clients):
            raise QuestionError("two clients have the same id or uuid; give each its own")
        self.name = {process: name for name, process in self.process.items()}
        self.task_order = [TaskId(subtopology=task.subtopology, partition=task.partition) for task in question.tasks]
        self.state = ApplicationState(
            states={self.process[client.id]: self._client(client) for client in question.clients},
            all_tasks={task: _info(task, given) for task, given in zip(self.task_order, question.tasks, strict=True)},
            assignment_configs=AssignmentConfigs(
                acceptable_recovery_lag=question.acceptable_recovery_lag,
                max_warmup_replicas=question.max_warmup_replicas,
                num_standby_replicas=question.num_standby_replicas,
                probing_rebalance_interval_ms=question.probing_rebalance_interval_ms,
                rack_aware_assignment_tags=tuple(question.rack_aware_assignment_tags or ()),
                rack_aware_traffic_cost=question.traffic_cost,
                rack_aware_non_overlap_cost=question.non_overlap_cost,
                rack_aware_assignment_strategy=question.strategy,
            ),
        )

    def _client(self, client: Client) -> KafkaStreamsState:
        question = self.question
        lags = None if question.lags is None else question.lags.get(client.id, {})
        active = _tasks(question.previous_active.get(client.id, ()))
        standby = _tasks(question.previous_standby.get(client.id, ()))
        consumer = f"{client.id}-consumer"
        racks = list(dict.fromkeys(client.rack if isinstance(client.rack, list) else [client.rack]))
        return KafkaStreamsState(
            process_id=self.process[client.id],
            num_processing_threads=client.threads,
            consumer_client_ids=(consumer,),
            previous_active_tasks=active,
            previous_standby_tasks=standby,
            previous_tasks_by_consumer={consumer: active | standby},
            lags=None if lags is None else {task_id(task): lag for task, lag in lags.items()},
            client_tags=client.tags or {},
            rack_id=racks[0] if len(racks) == 1 else None,
            contradicting_racks=tuple(rack or "" for rack in racks) if len(racks) > 1 else (),
        )

    def assignments(self) -> dict[ProcessId, KafkaStreamsAssignment]:
        """Where the tasks are.

        Raises:
            QuestionError: a client is named that is not there.
            AssignmentError: a client has a task in both roles.
        """
        active, standby = self.question.assignment, self.question.standby
        for name in [*active, *standby]:
            if name not in self.process:
                raise QuestionError(f"client {name!r} has tasks, but is not listed; give its rack and threads")
        return {
            process: assignment_of(process, active=_tasks(active.get(name, ())), standby=_tasks(standby.get(name, ())))
            for name, process in self.process.items()
        }

    def scope(self) -> RackAwareOptimizationParams:
        """Parameters of the optimisation that is asked for."""
        question = self.question
        params = RackAwareOptimizationParams(
            application_state=self.state,
            traffic_cost_override=question.traffic_cost_override,
            non_overlap_cost_override=question.non_overlap_cost_override,
        )
        only = question.tasks_to_optimize
        if only == "stateful":
            return params.for_stateful_tasks()
        if only == "stateless":
            return params.for_stateless_tasks()
        return params if only is None else params.for_tasks(map(task_id, only))


def _tasks(texts: Iterable[str]) -> frozenset[TaskId]:
    return frozenset(map(task_id, texts))


def _process(client: Client, number: int) -> ProcessId:
    try:
        return ProcessId(uuid=UUID(int=number) if client.uuid is None else UUID(client.uuid))
    except ValueError:
        raise QuestionError(f"uuid {client.uuid!r} of client {client.id!r} is not valid") from None


def _info(task: TaskId, given: Task) -> TaskInfo:
    seen = {(part.topic, part.partition) for part in given.partitions or ()}
    if len(seen) < len(given.partitions or ()):
        raise AssignmentError(f"task {task} lists a topic partition twice; give it once, as source and changelog")
    return TaskInfo(
        id=task,
        is_stateful=given.stateful,
        state_store_names=frozenset(["store"] if given.stateful else []),
        topic_partitions=tuple(
            TaskTopicPartition(
                topic=part.topic,
                partition=part.partition,
                is_source=part.source,
                is_changelog=part.changelog,
                racks=None if part.racks is None else frozenset(part.racks),
            )
            for part in given.partitions or ()
        ),
    )
