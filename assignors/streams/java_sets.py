"""Java's iteration orders of HashSets and PriorityQueues of tasks and clients.

Kafka's assignors iterate over such collections; to compare plans with Kafka's task by task, ours use the same orders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from samerack.assignors.streams.application import ProcessId, TaskId, TaskInfo, TaskTopicPartition

FIRST_TABLE: Final = 16
"""Buckets of a new HashMap (Java 8 and later); it doubles when three quarters are used."""

_WORD: Final = 0xFFFFFFFF
_BOOLEAN: Final = {True: 1231, False: 1237}

Value = TypeVar("Value")


def in_java_order(values: Iterable[Value], code: Callable[[Value], int]) -> list[Value]:
    """Return the values in the iteration order of a HashSet into which they were put in this order.

    Args:
        values: the values.
        code: `hashCode` of each.
    """
    found = list(dict.fromkeys(values))
    mask = table_size(len(found)) - 1
    return sorted(found, key=lambda value: bucket_spread(code(value)) & mask)


def table_size(count: int, *, at_once: bool = False) -> int:
    """Return the number of buckets of a HashSet of that many values; a power of two.

    Args:
        count: number of values.
        at_once: the set is made from a collection, whose size determines the table; else it grows from 16 buckets.
    """
    buckets = FIRST_TABLE
    while buckets < count / 0.75 + 1 if at_once else count > buckets * 3 // 4:
        buckets *= 2
    return buckets


def bucket_spread(code: int) -> int:
    """Return the bits of a `hashCode` whose last ones are the bucket (`HashMap.hash`)."""
    code &= _WORD
    return code ^ code >> 16


def in_queue_order(values: Iterable[Value], key: Callable[[Value], Any]) -> list[Value]:
    """Return the values in the order of a Java PriorityQueue into which all are put first; it is not stable."""
    found = list(values)
    keys = list(map(key, found))
    if len(set(keys)) == len(keys):  # then any queue has the same order
        return [found[at] for at in sorted(range(len(keys)), key=keys.__getitem__)]
    heap_keys: list[Any] = []
    heap: list[Value] = []
    for new_key, value in zip(keys, found, strict=True):
        hole = len(heap)
        heap_keys.append(new_key)
        heap.append(value)
        while hole and new_key < heap_keys[(hole - 1) // 2]:
            above = (hole - 1) // 2
            heap_keys[hole], heap[hole] = heap_keys[above], heap[above]
            hole = above
        heap_keys[hole], heap[hole] = new_key, value
    order = []
    while heap:
        order.append(heap[0])
        last_key, last = heap_keys.pop(), heap.pop()
        if heap:
            _sift_down(heap_keys, heap, last_key, last)
    return order


def _sift_down(heap_keys: list[Any], heap: list[Value], key: Any, value: Value) -> None:
    """Put a key and its value at the root of the heap, and move it down to its position."""
    hole, child, size = 0, 1, len(heap)
    while child < size:
        least = heap_keys[child]
        if child + 1 < size and heap_keys[child + 1] < least:
            child += 1
            least = heap_keys[child]
        if not least < key:
            break
        heap_keys[hole], heap[hole] = least, heap[child]
        hole, child = child, 2 * child + 1
    heap_keys[hole], heap[hole] = key, value


def tasks_in_java_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Return the tasks in the iteration order of a HashSet into which they were put in this order."""
    return in_java_order(tasks, task_hash)


def task_hash(task: TaskId) -> int:
    """Return `TaskId.hashCode`: of subtopology, partition, and name of the topology (0 for none), with factor 31."""
    return (((31 + task.subtopology) * 31 + task.partition) * 31 + string_hash(task.topology)) & _WORD


def process_hash(process: ProcessId) -> int:
    """Return `UUID.hashCode`: the exclusive or of its four 32-bit parts."""
    value = process.high ^ process.low
    return (value >> 32 ^ value) & _WORD


def string_hash(text: str) -> int:
    """Return `String.hashCode`, over UTF-16 units."""
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & _WORD
    return code


def info_hash(info: TaskInfo) -> int:
    """Return the hash of a task described by a Java record (id, stateful, store, topic partitions).

    Kafka's own class has no `hashCode`, so the order in a running application changes at each start; a record's hash
    depends only on its values and is reproducible.
    """
    stores = sum(map(string_hash, info.state_store_names))
    return _record(
        task_hash(info.id), _BOOLEAN[info.is_stateful], stores, sum(map(_partition_hash, info.topic_partitions))
    )


def _partition_hash(partition: TaskTopicPartition) -> int:
    """Return the hash of a record (topic partition, source, changelog, racks or none)."""
    name = 31 * (31 + partition.partition) + string_hash(partition.topic)
    racks = sum(map(string_hash, partition.racks or ()))
    return _record(name, _BOOLEAN[partition.is_source], _BOOLEAN[partition.is_changelog], racks)


def _record(*codes: int) -> int:
    result = 0
    for code in codes:
        result = (31 * result + code) & _WORD
    return result


def processes_in_java_order(processes: Iterable[ProcessId]) -> list[ProcessId]:
    """Return clients in the iteration order of a HashSet into which they were put in this order."""
    return in_java_order(processes, process_hash)
