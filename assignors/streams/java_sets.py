"""Java's iteration orders of HashSets and PriorityQueues of tasks and clients.

Kafka's assignors iterate over such collections; to compare plans with Kafka's task by task, ours use the same orders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from samerack.assignors.streams.model import ProcessId, TaskId, TaskInfo, TaskTopicPartition

FIRST_TABLE: Final = 16
"""Buckets of a new HashMap (Java 8 and later); it doubles when three quarters are used."""

_WORD: Final = 0xFFFFFFFF
_BOOLEAN: Final = {True: 1231, False: 1237}

Value = TypeVar("Value")


def in_java_order(values: Iterable[Value], code: Callable[[Value], int], *, at_once: bool = False) -> list[Value]:
    """Returns the values in the iteration order of a HashSet.

    Args:
        values: in the order in which they are put into the set.
        code: `hashCode` of each.
        at_once: the set is made from a collection, whose size determines the table; else it grows from 16 buckets.
    """
    found = list(dict.fromkeys(values))
    buckets = FIRST_TABLE
    if at_once:
        while buckets < len(found) / 0.75 + 1:
            buckets *= 2
    else:
        while len(found) > buckets * 3 // 4:
            buckets *= 2

    def bucket(value: Value) -> int:
        spread = code(value) & _WORD
        return (spread ^ spread >> 16) & (buckets - 1)

    return sorted(found, key=bucket)


def in_queue_order(values: Iterable[Value], key: Callable[[Value], Any]) -> list[Value]:
    """Returns the values in the order of a Java PriorityQueue into which all are put first; it is not stable."""
    heap: list[Value] = []
    for value in values:
        heap.append(value)
        hole = len(heap) - 1
        while hole and key(value) < key(heap[(hole - 1) // 2]):
            heap[hole] = heap[(hole - 1) // 2]
            hole = (hole - 1) // 2
        heap[hole] = value
    order = []
    while heap:
        order.append(heap[0])
        last = heap.pop()
        if heap:
            _sift_down(heap, last, key)
    return order


def _sift_down(heap: list[Value], value: Value, key: Callable[[Value], Any]) -> None:
    """Puts a value at the root of the heap, and moves it down to its position."""
    hole = 0
    while (child := 2 * hole + 1) < len(heap):
        if child + 1 < len(heap) and key(heap[child + 1]) < key(heap[child]):
            child += 1
        if not key(heap[child]) < key(value):
            break
        heap[hole] = heap[child]
        hole = child
    heap[hole] = value


def tasks_in_java_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Returns the tasks in the iteration order of a HashSet into which they were put in this order."""
    return in_java_order(tasks, task_hash)


def task_hash(task: TaskId) -> int:
    """Returns `TaskId.hashCode`: of subtopology, partition, and name of the topology (0 for none), with factor 31."""
    return (((31 + task.subtopology) * 31 + task.partition) * 31 + string_hash(task.topology)) & _WORD


def process_hash(process: ProcessId) -> int:
    """Returns `UUID.hashCode`: the exclusive or of its four 32-bit parts."""
    value = process.uuid.int
    return (value >> 96 ^ value >> 64 ^ value >> 32 ^ value) & _WORD


def string_hash(text: str) -> int:
    """Returns `String.hashCode`, over UTF-16 units."""
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & _WORD
    return code


def info_hash(info: TaskInfo) -> int:
    """Returns the hash of a task described by a Java record (id, stateful, stores, topic partitions).

    Kafka's own class has no `hashCode`, so the order in a running application changes at each start; a record's hash
    depends only on its values and is reproducible.
    """
    stores = sum(map(string_hash, info.state_store_names))
    return _record(
        task_hash(info.id), _BOOLEAN[info.is_stateful], stores, sum(map(_partition_hash, info.topic_partitions))
    )


def _partition_hash(partition: TaskTopicPartition) -> int:
    """Returns the hash of a record (topic partition, source, changelog, racks or none)."""
    name = 31 * (31 + partition.partition) + string_hash(partition.topic)
    racks = sum(map(string_hash, partition.racks or ()))
    return _record(name, _BOOLEAN[partition.is_source], _BOOLEAN[partition.is_changelog], racks)


def _record(*codes: int) -> int:
    result = 0
    for code in codes:
        result = (31 * result + code) & _WORD
    return result


def tasks_at_once(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Returns tasks in the iteration order of `new HashSet<>(tasks)`."""
    return in_java_order(tasks, task_hash, at_once=True)


def processes_in_java_order(processes: Iterable[ProcessId]) -> list[ProcessId]:
    """Returns clients in the iteration order of a HashSet into which they were put in this order."""
    return in_java_order(processes, process_hash)
