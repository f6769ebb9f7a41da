"""What the tasks of an application read, and what a plan of them costs, Kafka's or ours.

Ten thousand tasks on three racks have a handful of distinct combinations of racks and weights that they read. Whether
racks are known, whether all clients cost the same, and what crosses racks is decided for each combination, not for each
task (`reads_of`).
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from samerack.assignors.streams.application import TaskReads
from samerack.assignors.streams.assignment import Assignments, TaskType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from samerack.assignors.streams.active import Costs
    from samerack.assignors.streams.application import (
        ApplicationState,
        ProcessId,
        Read,
        TaskId,
        TaskInfo,
        TaskTopicPartition,
    )

_read: Final[Callable[[TaskTopicPartition], tuple[frozenset[str] | None, int]]] = attrgetter("racks", "weight")
_RELEVANT: Final[Mapping[tuple[TaskType, bool], Callable[[TaskTopicPartition], bool]]] = {
    (TaskType.ACTIVE, False): attrgetter("is_source"),
    (TaskType.ACTIVE, True): lambda _: True,
    (TaskType.STANDBY, False): attrgetter("is_changelog"),
    (TaskType.STANDBY, True): attrgetter("is_changelog"),
}
"""Whether a partition is relevant, by the role of the task and `compatible` (`relevant_partitions`)."""


def weight_across(read: Read, rack: str | None) -> int:
    """Return the weight of what a client in the rack would read across racks; an unknown rack is a different one."""
    return sum(weight for near, weight in read if rack not in (near or ()))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCost:
    """The cost of the tasks of one kind.

    Attributes:
        cross_rack: topic partitions that are read across racks; an unknown rack counts as a different one.
        moved: tasks on clients that did not have them in this role before.
        cost: traffic cost * weight of those partitions (by default 1 each) + non-overlap cost * moved.
    """

    cross_rack: int
    moved: int
    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbySpread:
    """How well standbys protect their tasks.

    Attributes:
        standbys: number of standbys.
        beside_active_rack: number of standbys in the rack of their active.
        single_rack: number of tasks with standbys whose active and standbys are all in one rack.
    """

    standbys: int
    beside_active_rack: int
    single_rack: int


def bill(  # noqa: PLR0913 - a bill needs the kind, both plans and the costs
    state: ApplicationState,
    before: Assignments,
    after: Assignments,
    kind: TaskType,
    costs: Costs,
    *,
    scope: Collection[TaskId] | None = None,
    compatible: bool = False,
) -> TaskCost:
    """Compute the bill of a plan.

    Args:
        state: the application.
        before: the previous plan.
        after: the new plan.
        kind: role of the tasks that count.
        costs: the costs that apply.
        scope: only these tasks count; None for all.
        compatible: an active's changelogs count as well (`relevant_partitions`).
    """
    cross_rack = weight = moved = 0
    for process, assignment in after.items():
        had = before[process].of_type(kind) if process in before else frozenset()
        for task in assignment.of_type(kind):
            if scope is None or task in scope:
                remote = remote_partitions(state, process, task, kind, compatible=compatible)
                cross_rack += len(remote)
                weight += sum(partition.weight for partition in remote)
                moved += task not in had
    return TaskCost(cross_rack=cross_rack, moved=moved, cost=costs.traffic * weight + costs.non_overlap * moved)


def remote_partitions(
    state: ApplicationState, process: ProcessId, task: TaskId, kind: TaskType, *, compatible: bool = False
) -> list[TaskTopicPartition]:
    """Return the task's topic partitions that the client would read across racks."""
    rack = state.states[process].rack_id
    partitions = relevant_partitions(state.all_tasks[task], kind, compatible=compatible)
    return [partition for partition in partitions if not rack or rack not in (partition.racks or ())]


def missing_standbys(state: ApplicationState, plan: Assignments) -> dict[TaskId, int]:
    """Return how many of the configured standbys each task lacks; only tasks with a changelog have standbys."""
    copies = dict.fromkeys((task for task, info in state.all_tasks.items() if info.is_changelogged), 0)
    for assignment in plan.values():
        for task in assignment.of_type(TaskType.STANDBY) & copies.keys():
            copies[task] += 1
    wanted = state.assignment_configs.num_standby_replicas
    return {task: wanted - count for task, count in copies.items() if count < wanted}


def spread(state: ApplicationState, plan: Assignments) -> StandbySpread:
    """Compute how well the standbys of a plan protect their tasks."""
    active: dict[TaskId, str | None] = {}
    standby: dict[TaskId, list[str | None]] = {}
    for process, assignment in plan.items():
        rack = state.states[process].rack_id
        for task, role in assignment.tasks.items():
            if role is TaskType.ACTIVE:
                active[task] = rack
            else:
                standby.setdefault(task, []).append(rack)
    return StandbySpread(
        standbys=sum(map(len, standby.values())),
        beside_active_rack=sum(racks.count(active[task]) for task, racks in standby.items() if task in active),
        single_rack=sum(len({active.get(task, racks[0]), *racks}) == 1 for task, racks in standby.items()),
    )
