"""Places standbys before racks are considered: KIP-924's `defaultStandbyTaskAssignment`, by load or tags (KIP-708).

Every task with a changelog gets `num_standby_replicas` standbys, each on the least loaded client (tasks by thread, then
process id) that does not have the task. With `rack.aware.assignment.tags` the clients that differ in every tag from
those that already have the task come first; once all values of a key are used, that key no longer counts. The order of
tasks decides ties: ascending here, while Kafka iterates over a HashMap (`assignors.streams.java_sets`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.plans import complete

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from samerack.assignors.streams.assignment import KafkaStreamsAssignment
    from samerack.assignors.streams.model import ApplicationState, ProcessId, TaskId

    Assignments = Mapping[ProcessId, KafkaStreamsAssignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPlan:
    """Assignments with standbys, and the number of standbys by task that found no client: start more instances."""

    assignments: dict[ProcessId, KafkaStreamsAssignment]
    missing: dict[TaskId, int]


def default_standby_task_assignment(
    state: ApplicationState,
    assignments: Assignments,
    *,
    order: Sequence[TaskId] | None = None,
    late_order: Sequence[TaskId] | None = None,
    at_least_one: bool = False,
) -> StandbyPlan:
    """Adds standbys to the assignments.

    Args:
        state: clients, tasks and settings.
        assignments: actives, and standbys that exist already; they are kept.
        order: the tasks in the order in which they choose clients; ascending by default.
        late_order: the order of tasks for which too few clients differ in tags; `order` by default.
        at_least_one: with tags, give one standby even if none is configured, as Kafka's public utility does.

    Raises:
        AssignmentError: an assignment is for an unknown client.

    Complexity: O(log clients) for each standby, O(clients) if tags exclude most clients.
    """
    tasks = [task for task in order or state.all_tasks if state.all_tasks[task].is_changelogged]
    clients = _Clients(state, complete(state, assignments))
    wanted = state.assignment_configs.num_standby_replicas
    keys = frozenset(state.assignment_configs.rack_aware_assignment_tags)
    left = dict.fromkeys(tasks, wanted)
    if keys and (wanted or at_least_one):
        apart = _Apart(state, keys)
        for task in tasks:
            left[task] = max(0, wanted - _place_apart(clients, apart, task, max(wanted, 1)))
    for task in (task for task in late_order or tasks if task in left):
        while left[task] and clients.take(task) is not None:
            left[task] -= 1
    return StandbyPlan(
        assignments=clients.assignments(), missing={task: count for task, count in left.items() if count}
    )


def _place_apart(clients: _Clients, apart: _Apart, task: TaskId, wanted: int) -> int:
    """Places standbys on clients that differ in tags from all that have the task; returns how many were placed."""
    used = clients.active_on(task)
    if used is None:
        return 0
    barred: dict[tuple[str, str], frozenset[ProcessId]] = {}
    for placed in range(wanted):
        apart.bar(barred, used, placed + 1)
        out = frozenset().union(*barred.values())
        taken = clients.take(task, lambda process, out=out: process not in out)  # type: ignore[misc]  # mypy drops the default
        if taken is None:
            return placed
        used = taken
    return wanted


class _Apart:
    """The clients of each tag, to exclude clients that share a tag (KIP-708)."""

    def __init__(self, state: ApplicationState, keys: frozenset[str]) -> None:
        self._tags = {
            process: [(key, value) for key, value in client.client_tags.items() if key in keys]
            for process, client in state.states.items()
        }
        self._with: dict[tuple[str, str], set[ProcessId]] = {}
        self._values: dict[str, set[str]] = {}
        for process, tags in self._tags.items():
            for key, value in tags:
                self._with.setdefault((key, value), set()).add(process)
                self._values.setdefault(key, set()).add(value)

    def bar(self, barred: dict[tuple[str, str], frozenset[ProcessId]], used: ProcessId, count: int) -> None:
        """Excludes all clients that share a tag with the client just used, the `count`-th of its task.

        A key with no more values than clients used is exhausted: it no longer excludes any client.
        """
        for key, value in self._tags[used]:
            values = self._values[key]
            if len(values) <= count:
                for other in values:
                    barred.pop((key, other), None)
            else:
                barred[key, value] = frozenset(self._with[key, value])


class _Clients:
    """Clients by load, the least loaded first."""

    def __init__(self, state: ApplicationState, assignments: Mapping[ProcessId, KafkaStreamsAssignment]) -> None:
        self._plan = assignments
        self._ids = list(state.states)
        self._threads = [client.num_processing_threads for client in state.states.values()]
        self._tasks = [dict(assignments[process].tasks) for process in self._ids]
        self._active = {
            task: process
            for process, assignment in assignments.items()
            for task, role in assignment.tasks.items()
            if role is TaskType.ACTIVE
        }
        self._queue = [(self._load(index), index) for index in range(len(self._ids))]
        heapq.heapify(self._queue)

    def _load(self, index: int) -> float:
        return len(self._tasks[index]) / self._threads[index]

    def active_on(self, task: TaskId) -> ProcessId | None:
        """Returns the client that has the task as active, or None."""
        return self._active.get(task)

    def take(self, task: TaskId, fits: Callable[[ProcessId], bool] = lambda _: True) -> ProcessId | None:
        """Gives a standby of the task to the least loaded client that fits and lacks the task; returns it, or None."""
        passed = []
        found = None
        while self._queue and found is None:
            entry = heapq.heappop(self._queue)
            index = entry[1]
            if task in self._tasks[index] or not fits(self._ids[index]):
                passed.append(entry)
                continue
            found = self._ids[index]
            self._tasks[index][task] = TaskType.STANDBY
            passed.append((self._load(index), index))
        for entry in passed:
            heapq.heappush(self._queue, entry)
        return found

    def assignments(self) -> dict[ProcessId, KafkaStreamsAssignment]:
        """Returns the current assignment of every client."""
        return {
            process: replace(self._plan[process], tasks=tasks)
            for process, tasks in zip(self._ids, self._tasks, strict=True)
        }
