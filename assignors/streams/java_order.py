"""Java's iteration order of a HashMap of tasks, for comparisons with Kafka, whose answers may depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignors.streams.model import TaskId

FIRST_TABLE: Final = 16
"""Buckets of a new HashMap (Java 8 and later); it doubles when three quarters are used."""

_WORD: Final = 0xFFFFFFFF


def task_hash(task: TaskId) -> int:
    """Returns `TaskId.hashCode`: of subtopology, partition, and name of the topology (0 for none), with factor 31."""
    name = 0
    for unit in memoryview(task.topology.encode("utf-16-le", "surrogatepass")).cast("H"):
        name = (31 * name + unit) & _WORD
    return (((31 + task.subtopology) * 31 + task.partition) * 31 + name) & _WORD


def tasks_in_java_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Returns the tasks in the iteration order of a HashSet into which they were put in this order."""
    found = list(dict.fromkeys(tasks))
    buckets = FIRST_TABLE
    while len(found) > buckets * 3 // 4:
        buckets *= 2

    def bucket(task: TaskId) -> int:
        code = task_hash(task)
        return (code ^ code >> 16) & (buckets - 1)

    return sorted(found, key=bucket)
