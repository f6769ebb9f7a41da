"""Places standbys before racks are considered: KIP-924's `defaultStandbyTaskAssignment`, by load or tags (KIP-708).

Every task with a changelog gets `num_standby_replicas` standbys, each on the least loaded client (tasks by thread, then
process id) that does not have the task. With `rack.aware.assignment.tags` the clients that differ in every tag from
those that already have the task come first; once all values of a key are used, that key no longer counts. The order of
tasks decides ties: ascending here, while Kafka iterates over a HashMap (`assignors.streams.java_sets`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from samerack.assignors.streams.assignment import Assignments, Plan, TaskType
from samerack.assignors.streams.evaluate import reads_of
from samerack.assignors.streams.intern import complete

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from samerack.assignors.streams.application import ApplicationState, TaskId
    from samerack.assignors.streams.intern import Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPlan:
    """Assignments with standbys, and the number of standbys by task that found no client: start more instances."""

    assignments: Plan
    missing: dict[TaskId, int]


def default_standby_task_assignment(
    state: ApplicationState,
    assignments: Assignments,
    *,
    order: Sequence[TaskId] | None = None,
    at_least_one: bool = False,
) -> StandbyPlan:
    """Add standbys to the assignments.

    Args:
        state: clients, tasks and settings.
        assignments: actives, and standbys that exist already; they are kept.
        order: the tasks in the order in which they choose clients; ascending by default.
        at_least_one: with tags, give one standby even if none is configured, as Kafka's public utility does.

    Raises:
        AssignmentError: an assignment is for an unknown client.

    Complexity: O(log clients) for each standby, O(clients) if tags exclude most clients.
    """
    plan = complete(state, assignments)
    given, missing = deal_standbys(state, plan.values(), order=order, at_least_one=at_least_one)
    return StandbyPlan(
        assignments={
            process: replace(assignment, tasks={**assignment.tasks, **dict.fromkeys(new, TaskType.STANDBY)})
            for (process, assignment), new in zip(plan.items(), given, strict=True)
        },
        missing=missing,
    )


def deal_standbys(
    state: ApplicationState,
    holders: Collection[Holder],
    *,
    order: Sequence[TaskId] | None = None,
    late_order: Sequence[TaskId] | None = None,
    at_least_one: bool = False,
) -> tuple[list[list[TaskId]], dict[TaskId, int]]:
    """Return the new standbys of `default_standby_task_assignment`, for all clients in ascending order.

    Tasks for which too few clients differ in tags choose in `late_order`, by default as all.

    Returns:
        The new standbys of each client, and the number of standbys by task that found no client.
    """
    logged = reads_of(state, TaskType.STANDBY)
    tasks = [task for task in order or state.all_tasks if logged.distinct[logged.number[task]]]
    clients = _Clients(state, holders)
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
    return clients.given, {task: count for task, count in left.items() if count}


def _place_apart(clients: _Clients, apart: _Apart, task: TaskId, wanted: int) -> int:
    """Place standbys on clients that differ in tags from all that have the task; return how many were placed."""
    used = clients.active.get(task)
    if used is None:
        return 0
    barred: dict[tuple[str, str], set[int]] = {}
    for placed in range(wanted):
        apart.bar(barred, used, placed + 1)
        taken = clients.take(task, barred.values())
        if taken is None:
            return placed
        used = taken
    return wanted


class _Apart:
    """The clients of each tag, by their number, to exclude clients that share a tag (KIP-708)."""

    def __init__(self, state: ApplicationState, keys: frozenset[str]) -> None:
        self._tags = [
            [(key, value) for key, value in client.client_tags.items() if key in keys]
            for client in state.states.values()
        ]
        self._with: dict[tuple[str, str], set[int]] = {}
        self._values: dict[str, set[str]] = {}
        for client, tags in enumerate(self._tags):
            for key, value in tags:
                self._with.setdefault((key, value), set()).add(client)
                self._values.setdefault(key, set()).add(value)

    def bar(self, barred: dict[tuple[str, str], set[int]], used: int, count: int) -> None:
        """Exclude all clients that share a tag with the client just used, the `count`-th of its task.

        A key with no more values than clients used is exhausted: it no longer excludes any client.
        """
        for key, value in self._tags[used]:
            values = self._values[key]
            if len(values) <= count:
                for other in values:
                    barred.pop((key, other), None)
            else:
                barred[key, value] = self._with[key, value]


class _Clients:
    """Clients by load, the least loaded first; each by its number in ascending order.

    Attributes:
        given: the standbys that each client has been given.
    """

    def __init__(self, state: ApplicationState, holders: Collection[Holder]) -> None:
        self._threads = [client.num_processing_threads for client in state.states.values()]
        self._actives = [holder.of_type(TaskType.ACTIVE) for holder in holders]
        self._tasks = [{*holder.of_type(TaskType.ACTIVE), *holder.of_type(TaskType.STANDBY)} for holder in holders]
        self.given: list[list[TaskId]] = [[] for _ in holders]
        self._queue = [(self._load(index), index) for index in range(len(self._tasks))]
        heapq.heapify(self._queue)

    def _load(self, index: int) -> float:
        return len(self._tasks[index]) / self._threads[index]

    @cached_property
    def active(self) -> dict[TaskId, int]:
        """The client of each active task."""
        return {task: index for index, mine in enumerate(self._actives) for task in mine}

    def take(self, task: TaskId, barred: Collection[set[int]] = ()) -> int | None:
        """Give a standby of the task to the least loaded client that lacks it and is in none of the sets `barred`.

        Returns:
            The client, or None.
        """
        passed = []
        found = None
        while self._queue and found is None:
            index = self._queue[0][1]
            if task in self._tasks[index] or (barred and any(index in near for near in barred)):
                passed.append(heapq.heappop(self._queue))
                continue
            found = index
            self._tasks[index].add(task)
            self.given[index].append(task)
            heapq.heapreplace(self._queue, (self._load(index), index))
        for entry in passed:
            heapq.heappush(self._queue, entry)
        return found
