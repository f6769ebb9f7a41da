"""What the tasks of an application read: each distinct combination of racks and weights once.

Ten thousand tasks on three racks have a handful of them. Whether racks are known, whether all clients cost the same,
and what crosses racks is decided for each combination, not for each task.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from samerack.assignors.streams.application import TaskReads
from samerack.assignors.streams.assignment import TaskType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from samerack.assignors.streams.application import ApplicationState, Read, TaskInfo, TaskTopicPartition

_read: Final[Callable[[TaskTopicPartition], tuple[frozenset[str] | None, int]]] = attrgetter("racks", "weight")
_RELEVANT: Final[Mapping[tuple[TaskType, bool], Callable[[TaskTopicPartition], bool]]] = {
    (TaskType.ACTIVE, False): attrgetter("is_source"),
    (TaskType.ACTIVE, True): lambda _: True,
    (TaskType.STANDBY, False): attrgetter("is_changelog"),
    (TaskType.STANDBY, True): attrgetter("is_changelog"),
}
"""Whether a partition is relevant, by the role of the task and `compatible` (`relevant_partitions`)."""


def relevant_partitions(info: TaskInfo, kind: TaskType, *, compatible: bool = False) -> list[TaskTopicPartition]:
    """Return the partitions whose racks matter: an active task reads its sources, a standby its changelogs.

    Kafka's public utility also counts an active task's changelogs (`compatible`), which the task writes but does not
    read; Kafka's own HighAvailabilityTaskAssignor does not.
    """
    return list(filter(_RELEVANT[kind, compatible], info.topic_partitions))


def reads_of(state: ApplicationState, kind: TaskType, *, compatible: bool = False) -> TaskReads:
    """Return what all tasks read in one role (`relevant_partitions`); the application keeps it."""
    found = state.reads.get((kind, compatible))
    if found is None:
        relevant = _RELEVANT[kind, compatible]
        distinct: dict[Read, int] = {}
        number = {
            task: distinct.setdefault(tuple(map(_read, filter(relevant, info.topic_partitions))), len(distinct))
            for task, info in state.all_tasks.items()
        }
        found = state.reads[kind, compatible] = TaskReads(distinct=tuple(distinct), number=number)
    return found
