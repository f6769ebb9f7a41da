"""Reads the JSON of `POST /v1/streams/assign`, version 1: an application as KIP-924 models it, with names as indices.

Written by hand and not by pydantic: ten thousand tasks on a thousand clients must be read in a part of half a second,
while a Streams application waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from samerack.agent.streams.context import MAX_NAME
from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.application import (
    AssignmentConfigs,
    KafkaStreamsState,
    ProcessId,
    SharedLags,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
    task_id,
)
from samerack.common.words import is_utf8

VERSION: Final = 1
_KINDS: Final = {1: (True, False), 2: (False, True), 3: (True, True)}
"""Whether a partition is a source, and whether it is a changelog, by its kind."""
_ASSIGNORS: Final = ("ha", "sticky")
"""What an application may choose, as the jar does; classes of users run with the agent's rights: settings name them."""
_STORE: Final = frozenset({"store"})
"""The stores of a stateful task: the question does not name them."""
_NO_STORE: Final = frozenset[str]()
_NUMBERS: Final = (
    "acceptable_recovery_lag",
    "max_warmup_replicas",
    "num_standby_replicas",
    "probing_rebalance_interval_ms",
    "rack_aware_traffic_cost",
    "rack_aware_non_overlap_cost",
)

Value = TypeVar("Value")


class PlanQuestionError(Exception):
    """The question is not valid; the message says where and what is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """An application that asks for a plan.

    Attributes:
        application: `application.id`, which is also the name of its consumer group.
        assignor: `ha` or `sticky` if the application chose one of Kafka's; "" for Kafka's default.
        tasks: its tasks, in the order of the question, by which the answer names them.
        clients: its clients, in the order of the question.
    """

    application: str
    assignor: str
    configs: AssignmentConfigs
    tasks: tuple[TaskInfo, ...]
    clients: tuple[KafkaStreamsState, ...]
    task_ids: tuple[TaskId, ...] = field(repr=False)


def read_question(body: bytes) -> PlanQuestion:
    """Return the question in a body.

    Raises:
        PlanQuestionError: It is not one.
    """
    try:
        given: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise PlanQuestionError(
            f"request body is not valid JSON: {error}; post what samerack's TaskAssignor posts"
        ) from None
    root = _Object(given, "question")
    version = root.get("version", int)
    if version != VERSION:
        raise PlanQuestionError(f"version {version} is unknown; this agent knows {VERSION}: use the jar of its release")
    return _Reader(root).question()


class _Object:
    """A JSON object and its place, for messages."""

    def __init__(self, value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise PlanQuestionError(f"{place}: expected an object")
        self._value = value
        self._place = place

    def get(self, key: str, kind: type[Value]) -> Value:
        value = self._value.get(key)
        if not _is(value, kind):
            raise PlanQuestionError(f"{self._place}: {key}: expected {_NAMES[kind]}")
        return cast("Value", value)

    def maybe(self, key: str, kind: type[Value]) -> Value | None:
        return None if self._value.get(key) is None else self.get(key, kind)


_NAMES: Final[Mapping[type, str]] = {int: "a whole number", str: "a string", list: "a list", dict: "an object"}


def _is(value: object, kind: type) -> bool:
    return type(value) is kind  # json makes no others, and true is no number


def _are(values: Iterable[object], kind: type) -> bool:
    """Return whether all values are of this kind, as `_is`; ten times for each client."""
    return {kind}.issuperset(map(type, values))


class _Reader:
    """Reads one question; lists of names come before what refers to them by index."""

    def __init__(self, root: _Object) -> None:
        self._root = root
        self._topics: Sequence[str] = _texts(root.get("topics", list), "topics")
        self._racks: Sequence[str] = _texts(root.get("racks", list), "racks")
        self._rack_sets: dict[tuple[int, ...], frozenset[str]] = {}
        self._tasks: tuple[TaskInfo, ...] = ()
        self._ids: tuple[TaskId, ...] = ()

    def question(self) -> PlanQuestion:
        root = self._root
        application = root.get("application", str)
        if not application or len(application) > MAX_NAME:
            raise PlanQuestionError(f"application: expected a name of at most {MAX_NAME} characters")
        configs = _Object(root.get("configs", dict), "configs")
        assignor = configs.maybe("assignor", str)
        if assignor is not None and assignor not in _ASSIGNORS:
            raise PlanQuestionError(
                f"configs: assignor: expected ha, sticky or null, not {assignor[:MAX_NAME]!r}; "
                "the agent's settings may name another one in streams.applications"
            )
        try:
            self._tasks = tuple(self._task(task, index) for index, task in enumerate(root.get("tasks", list)))
            self._ids = tuple(task.id for task in self._tasks)
            if len(set(self._ids)) < len(self._ids):
                raise PlanQuestionError("tasks: one is listed twice; give each once")
            clients = self._clients(root)
            return PlanQuestion(
                application=application,
                assignor=assignor or "",
                configs=_configs(configs),
                tasks=self._tasks,
                clients=clients,
                task_ids=self._ids,
            )
        except AssignmentError as error:
            raise PlanQuestionError(str(error)) from None
        except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
            raise PlanQuestionError(f"the request does not have the format of version {VERSION}: {error!r}") from None

    def _task(self, given: Any, index: int) -> TaskInfo:
        try:
            name, stateful, partitions = given
            is_stateful = _KNOWN[stateful]
            stores = _STORE if is_stateful else _NO_STORE
            info = TaskInfo._make((task_id(name), is_stateful, stores, self._partitions(partitions)))
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise PlanQuestionError(
                f"tasks: number {index}: {error!r}; expected [TASK, 0 or 1, [[TOPIC, PARTITION, KIND, RACKS], ...]]"
            ) from None
        return info

    def _partitions(self, given: list[tuple[int, int, int, list[int] | None]]) -> tuple[TaskTopicPartition, ...]:
        topics, found = self._topics, []
        for topic, partition, kind, racks in given:
            if topic < 0:
                raise IndexError(topic)
            is_source, is_changelog = _KINDS[kind]
            near = None if racks is None else self._rack_set(tuple(racks))
            found.append(TaskTopicPartition._make((topics[topic], partition, is_source, is_changelog, near, 1)))
        return tuple(found)

    def _rack_set(self, racks: tuple[int, ...]) -> frozenset[str]:
        found = self._rack_sets.get(racks)
        if found is None:
            found = self._rack_sets[racks] = frozenset(_at(self._racks, rack) for rack in racks)
        return found

    def _clients(self, root: _Object) -> tuple[KafkaStreamsState, ...]:
        given = root.get("clients", list)
        if not given:
            raise PlanQuestionError("clients: no client to assign tasks to")
        common = self._lags(root.maybe("lags", list) or [])
        clients = tuple(
            self._client(_Object(client, f"clients: number {index}"), common) for index, client in enumerate(given)
        )
        if len({client.process_id for client in clients}) < len(clients):
            raise PlanQuestionError("clients: a process is listed twice; give each once")
        return clients

    def _client(self, given: _Object, common: Mapping[TaskId, int]) -> KafkaStreamsState:
        consumers = tuple(_texts(given.get("consumers", list), "consumers"))
        active, standby = self._named(given.get("active", list)), self._named(given.get("standby", list))
        lags, rack, tags = given.maybe("lags", list), given.maybe("rack", int), given.maybe("tags", dict) or {}
        return KafkaStreamsState(
            process_id=ProcessId(uuid=UUID(given.get("process", str))),
            num_processing_threads=given.get("threads", int),
            consumer_client_ids=tuple(sorted(consumers)),
            previous_active_tasks=active,
            previous_standby_tasks=standby,
            previous_tasks_by_consumer={consumers[0]: active | standby} if len(consumers) == 1 else {},
            lags=None if lags is None else SharedLags(own=self._lags(lags), common=common),
            host_info=_host(given.maybe("host", str)),
            client_tags=dict(zip(_texts(tags, "tags"), _texts(tags.values(), "tags"), strict=True)),
            rack_id=None if rack is None else _at(self._racks, rack),
        )

    def _named(self, indices: list[int]) -> frozenset[TaskId]:
        if indices and not (min(indices) >= 0 and _are(indices, int)):
            raise PlanQuestionError("clients: a task is not an index into tasks")
        return frozenset(map(self._ids.__getitem__, indices))

    def _lags(self, pairs: list[list[int]]) -> dict[TaskId, int]:
        if not pairs:
            return {}
        tasks, lags = zip(*pairs, strict=True)
        if min(tasks) < 0:
            raise PlanQuestionError("lags: a task is not an index into tasks")
        if not _are(lags, int):
            raise PlanQuestionError("lags: expected [[TASK, LAG], ...]")
        return dict(zip(map(self._ids.__getitem__, tasks), lags, strict=True))


_KNOWN: Final[Mapping[int, bool]] = {0: False, 1: True}


def _texts(values: Iterable[Any], place: str) -> list[str]:
    texts = list(values)
    if not _are(texts, str) or not is_utf8("".join(texts)):
        raise PlanQuestionError(f"{place}: expected strings in UTF-8")
    return texts


def _at(names: Sequence[str], index: int) -> str:
    if index < 0:
        raise IndexError(index)
    return names[index]


def _host(text: str | None) -> tuple[str, int] | None:
    if not text:
        return None
    host, _, port = text.rpartition(":")
    return host, int(port)


def _configs(given: _Object) -> AssignmentConfigs:
    strategy = given.maybe("rack_aware_strategy", str)
    values: dict[str, Any] = {} if strategy is None else {"rack_aware_assignment_strategy": strategy}
    for name in _NUMBERS:
        if (value := given.maybe(name, int)) is not None:
            values[name] = value
    tags = given.maybe("rack_aware_assignment_tags", list) or []
    return AssignmentConfigs(**values, rack_aware_assignment_tags=tuple(_texts(tags, "rack_aware_assignment_tags")))
