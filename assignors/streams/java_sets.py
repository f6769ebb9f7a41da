"""More orders in which Java lists what is in a HashSet: sets made at once, sets of clients, sets of described tasks.

Kafka's sticky assignors go through such sets; where a plan is compared with Kafka's task by task, so must we.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from assignors.streams.java_order import FIRST_TABLE, task_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assignors.streams.model import ProcessId, TaskId, TaskInfo, TaskTopicPartition

_WORD: Final = 0xFFFFFFFF
_BOOLEAN: Final = {True: 1231, False: 1237}

Value = TypeVar("Value")


def in_java_order(values: Iterable[Value], code: Callable[[Value], int], *, at_once: bool = False) -> list[Value]:
    """The values as a HashSet lists them.

    Args:
        values: in the order in which they are put into the set.
        code: `hashCode` of each.
        at_once: the set is made from a collection, whose size fixes the table; otherwise it grows from 16 buckets.
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
    """The values as a Java PriorityQueue gives them that all were put into first: equals come in no plain order."""
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
    """Put a value where the first one was, and let it sink to where it belongs."""
    hole = 0
    while (child := 2 * hole + 1) < len(heap):
        if child + 1 < len(heap) and key(heap[child + 1]) < key(heap[child]):
            child += 1
        if not key(heap[child]) < key(value):
            break
        heap[hole] = heap[child]
        hole = child
    heap[hole] = value


def process_hash(process: ProcessId) -> int:
    """`UUID.hashCode`: its four words, exclusive or."""
    value = process.uuid.int
    return (value >> 96 ^ value >> 64 ^ value >> 32 ^ value) & _WORD


def string_hash(text: str) -> int:
    """`String.hashCode`, over UTF-16 units."""
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & _WORD
    return code


def info_hash(info: TaskInfo) -> int:
    """The hash of a task described by a Java record (id, stateful, stores, topic partitions).

    Kafka's own class has no `hashCode`, so the order of a running application changes from start to start; a record's
    depends on its values alone and can be repeated.
    """
    stores = sum(map(string_hash, info.state_store_names))
    return _record(
        task_hash(info.id), _BOOLEAN[info.is_stateful], stores, sum(map(_partition_hash, info.topic_partitions))
    )


def _partition_hash(partition: TaskTopicPartition) -> int:
    """A record (topic partition, source, changelog, racks or none)."""
    name = 31 * (31 + partition.partition) + string_hash(partition.topic)
    racks = sum(map(string_hash, partition.racks or ()))
    return _record(name, _BOOLEAN[partition.is_source], _BOOLEAN[partition.is_changelog], racks)


def _record(*codes: int) -> int:
    result = 0
    for code in codes:
        result = (31 * result + code) & _WORD
    return result


def tasks_at_once(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Tasks as `new HashSet<>(tasks)` lists them."""
    return in_java_order(tasks, task_hash, at_once=True)


def processes_in_java_order(processes: Iterable[ProcessId]) -> list[ProcessId]:
    """Clients as a HashSet lists them that they were put into in this order."""
    return in_java_order(processes, process_hash)
