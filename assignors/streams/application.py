"""The input of a Streams task assignor: clients, tasks and settings of an application, as KIP-924 models them.

Names follow KIP-924 ("Public Interfaces"), and values never change. Assignors with much computation do it on arrays
(`assignors.streams.intern`) and use this model for their input, and `assignors.streams.assignment` for their output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self, TypeAlias
from uuid import UUID

from samerack.assignors.problem import AssignmentError as InvalidError

LATEST_OFFSET: Final = -2
"""The "lag" of a task that ran actively on the client (`Task.LATEST_OFFSET`)."""

_SIGN: Final = 1 << 63


class TaskAssignmentError(InvalidError):
    """An assignor could not decide now: the previous assignment stays and a follow-up rebalance starts at once."""


class LagsNotComputedError(InvalidError):
    """Lags were requested from a state that was built without them (KIP-924, `KafkaStreamsState.lagFor`)."""


class _Task(NamedTuple):
    topology: str
    subtopology: int
    partition: int


class TaskId(_Task):
    """A task: partition `partition` of subtopology `subtopology`; `topology` is "" unless the topology has a name.

    A tuple, because assignors look tasks up and compare them millions of times.
    """

    __slots__ = ()

    def __new__(cls, *, topology: str = "", subtopology: int, partition: int) -> Self:
        """Make a task id from names, not places."""
        return tuple.__new__(cls, (topology, subtopology, partition))

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), self._asdict()

    def __str__(self) -> str:
        prefix = f"{self.topology}__" if self.topology else ""
        return f"{prefix}{self.subtopology}_{self.partition}"


def task_id(text: str) -> TaskId:
    """Parse a task id as Kafka writes it, such as `0_1` or `name__0_1`.

    Raises:
        AssignmentError: The text is not a task id.
    """
    name, _, partition = text.rpartition("_")
    topology, separator, subtopology = name.rpartition("__")
    if not (subtopology.isdecimal() and partition.isdecimal()) or (separator and not topology):
        raise InvalidError(f"invalid task id {text!r}; expected SUBTOPOLOGY_PARTITION, for example 0_1")
    return TaskId(topology=topology, subtopology=int(subtopology), partition=int(partition))


class _Halves(NamedTuple):
    high: int
    low: int


class ProcessId(_Halves):
    """A Kafka Streams client. Ordered as Java orders UUIDs: by two signed 64-bit halves.

    A tuple of these halves, because assignors look clients up and compare them hundreds of thousands of times.
    """

    __slots__ = ()

    def __new__(cls, *, uuid: UUID) -> Self:
        """Make a process id from its UUID."""
        high, low = divmod(uuid.int, 1 << 64)
        return tuple.__new__(cls, ((high ^ _SIGN) - _SIGN, (low ^ _SIGN) - _SIGN))

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), {"uuid": self.uuid}

    @property
    def uuid(self) -> UUID:
        """Returns it as Python's UUID."""
        return UUID(int=self.high % (1 << 64) << 64 | self.low % (1 << 64))

    def __repr__(self) -> str:
        return f"ProcessId(uuid={self.uuid!r})"

    def __str__(self) -> str:
        return str(self.uuid)


class TaskTopicPartition(NamedTuple):
    """A topic partition that a task reads or writes; a tuple, because an application has tens of thousands.

    Attributes:
        topic: its topic.
        partition: its number.
        is_source: whether the task reads it; a source topic that serves as changelog is both.
        is_changelog: whether it holds changes of the task's state.
        racks: racks of its replicas; None if unknown.
        weight: its share of the traffic cost, in any unit that is the same for all partitions; Kafka counts all as 1.
    """

    topic: str
    partition: int
    is_source: bool = True
    is_changelog: bool = False
    racks: frozenset[str] | None = None
    weight: int = 1


class TaskInfo(NamedTuple):
    """A task that must be assigned: whether it has state, its stores, and every partition of it."""

    id: TaskId
    is_stateful: bool = False
    state_store_names: frozenset[str] = frozenset()
    topic_partitions: tuple[TaskTopicPartition, ...] = ()

    @property
    def is_changelogged(self) -> bool:
        """Returns whether it has a changelog: only such tasks get standbys."""
        return any(partition.is_changelog for partition in self.topic_partitions)


Read: TypeAlias = tuple[tuple[frozenset[str] | None, int], ...]
"""Racks of the replicas, None if unknown, and weight of each partition that a task reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReads:
    """What all tasks read in one role.

    Attributes:
        distinct: the distinct reads.
        number: by task the index of its read in `distinct`.
    """

    distinct: tuple[Read, ...]
    number: Mapping[TaskId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLags(Mapping[TaskId, int]):
    """Lags by task.

    A thousand clients and ten thousand tasks have ten million lags, but a client has state of few tasks; of all others
    its lag is the sum of the end offsets, which is the same for every client.

    Attributes:
        own: lags that are the client's own; they have priority.
        common: lags of the tasks that the client does not name, the same mapping for all clients.
    """

    own: Mapping[TaskId, int]
    common: Mapping[TaskId, int]

    def __getitem__(self, task: TaskId) -> int:
        own = self.own.get(task)
        return self.common[task] if own is None else own

    def __iter__(self) -> Iterator[TaskId]:
        yield from self.common
        yield from (task for task in self.own if task not in self.common)

    def __len__(self) -> int:
        return len(self.common) + sum(task not in self.common for task in self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStreamsState:
    """A Kafka Streams client (KIP-924, `KafkaStreamsState`).

    Attributes:
        process_id: its process id.
        num_processing_threads: its capacity relative to others, at least 1.
        consumer_client_ids: its consumers, ascending.
        previous_active_tasks: its active tasks since the last rebalance.
        previous_standby_tasks: its standby tasks since the last rebalance.
        previous_tasks_by_consumer: the same tasks, both kinds, by consumer.
        lags: [task] end offsets minus own offsets, summed over the logged stores; the whole sum of end offsets if the
            client has no state of the task, LATEST_OFFSET if it ran it. None if they were not computed.
        host_info: `application.server`, or None.
        client_tags: `client.tag.*` (KIP-708).
        rack_id: `client.rack`, or None.
        contradicting_racks: the racks of its consumers if they differ; then it has no `rack_id`.
    """

    process_id: ProcessId
    num_processing_threads: int = 1
    consumer_client_ids: tuple[str, ...] = ()
    previous_active_tasks: frozenset[TaskId] = frozenset()
    previous_standby_tasks: frozenset[TaskId] = frozenset()
    previous_tasks_by_consumer: Mapping[str, frozenset[TaskId]] = field(default_factory=dict)
    lags: Mapping[TaskId, int] | None = None
    host_info: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    rack_id: str | None = None
    contradicting_racks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a client without threads."""
        if self.num_processing_threads < 1:
            raise InvalidError(f"client {self.process_id} has {self.num_processing_threads} threads; it needs one")

    def stateful_tasks_to_lag_sums(self) -> Mapping[TaskId, int]:
        """Return the lags of all stateful tasks.

        Raises:
            LagsNotComputedError: Lags were not requested.
        """
        if self.lags is None:
            raise LagsNotComputedError(
                f"lags of client {self.process_id} were not computed; ask kafka_streams_states(compute_task_lags=True)"
            )
        return self.lags

    def lag_for(self, task: TaskId) -> int:
        """Return the lag of one stateful task.

        Raises:
            LagsNotComputedError: Lags were not requested.
            AssignmentError: There is no lag for this task: it has no state, or does not exist.
        """
        lags = self.stateful_tasks_to_lag_sums()
        if task not in lags:
            raise InvalidError(f"client {self.process_id} has no lag for task {task}; only stateful tasks have one")
        return lags[task]

    def prev_tasks_by_lag(self, consumer: str) -> tuple[TaskId, ...]:
        """Return the consumer's previous stateful tasks, the least lag first, without tasks that no longer exist.

        Raises:
            LagsNotComputedError: Lags were not requested.
        """
        lags = self.stateful_tasks_to_lag_sums()
        had = self.previous_tasks_by_consumer.get(consumer, frozenset())
        return tuple(sorted((task for task in had if task in lags), key=lambda task: (lags[task], task)))


class Strategy(Enum):
    """KIP-925, `rack.aware.assignment.strategy`, by the names that Kafka released."""

    NONE = "none"
    MIN_TRAFFIC = "min_traffic"
    BALANCE_SUBTOPOLOGY = "balance_subtopology"


ALIASES: Final = {
    "min_cost": Strategy.MIN_TRAFFIC,
    "balanced_min_cost": Strategy.BALANCE_SUBTOPOLOGY,
}
"""Names in KIP-925 (4.B.III) for strategies that Kafka released under other names."""


def strategy_named(name: str) -> Strategy:
    """Return the strategy of this name or alias, in upper or lower case (KIP-925, section 5, write `NONE`).

    Raises:
        InvalidError: There is no such strategy.
    """
    wanted = name.lower()
    found = ALIASES.get(wanted) or next((strategy for strategy in Strategy if strategy.value == wanted), None)
    if found is None:
        names = ", ".join([*(strategy.value for strategy in Strategy), *ALIASES])
        raise InvalidError(f"strategy {name!r} is unknown; give one of {names}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentConfigs:
    """Settings of the application that concern assignment; the defaults are Kafka's (`StreamsConfig`, 4.3).

    Attributes:
        acceptable_recovery_lag: lag in offsets up to which a client counts as caught up (KIP-441).
        max_warmup_replicas: extra standbys at a time, beyond the configured ones (KIP-441).
        num_standby_replicas: standbys of each task with a changelog.
        probing_rebalance_interval_ms: wait before warm-ups are checked again (KIP-441).
        rack_aware_assignment_tags: keys of client tags over whose values tasks are spread (KIP-708).
        rack_aware_traffic_cost: cost of a topic partition that is read across racks; None for the assignor's own.
        rack_aware_non_overlap_cost: cost of a task that moves to another client; None for the assignor's own.
        rack_aware_assignment_strategy: KIP-925's strategy, as the user wrote it.
    """

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None
    rack_aware_assignment_strategy: str = Strategy.NONE.value

    def __post_init__(self) -> None:
        """Refuse values below the minimum."""
        for name in (setting.name for setting in fields(self)):
            value, least = getattr(self, name), 1 if name == "max_warmup_replicas" else 0
            if isinstance(value, int) and value < least:
                raise InvalidError(f"{name} is {value}; give at least {least}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationState:
    """The input of an assignment (KIP-924, `ApplicationState`): clients, tasks and settings."""

    states: Mapping[ProcessId, KafkaStreamsState]
    all_tasks: Mapping[TaskId, TaskInfo]
    assignment_configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    reads: dict[object, TaskReads] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What tasks read by their role, as far as it was asked for (`assignors.streams.evaluate`)."""

    def __post_init__(self) -> None:
        """Sort clients and tasks in ascending order, so that equal applications get equal assignments."""
        for name in ("states", "all_tasks"):
            values: Mapping[Any, Any] = getattr(self, name)
            object.__setattr__(self, name, MappingProxyType({key: values[key] for key in sorted(values)}))

    def kafka_streams_states(self, *, compute_task_lags: bool) -> Mapping[ProcessId, KafkaStreamsState]:
        """Return the clients, with lags only if requested.

        Raises:
            TaskAssignmentError: Lags are requested and could not be computed; let it propagate to retry the rebalance.
        """
        if not compute_task_lags:
            return {process: replace(state, lags=None) for process, state in self.states.items()}
        for process, state in self.states.items():
            if state.lags is None:
                raise TaskAssignmentError(f"lags of client {process} could not be computed; the rebalance is retried")
        return self.states
