"""KIP-924's `optimizeRackAwareActiveTasks` and `optimizeRackAwareStandbyTasks`, exact, and saying what kept them off.

`compatible=True` gives Kafka's behaviour where Kafka's public utility strays from the documents: an active task's
changelogs count, an active that comes where its standby is deletes that, overrides do not stand in for configured
costs, racks must be known for every task, tags and `for_tasks` do not restrain standbys, shares of a subtopology are
rounded as in Java and enforced even where all places cost the same. Whatever the mode, standbys always follow
`min_traffic`, as KIP-925 (4.C) says: Kafka's utility applies balance_subtopology to pairs of clients, which can raise
the cost. What must not enter: flows (`active`, `standby`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from assignors.model import AssignmentError
from assignors.streams.active import ActiveTasks, Costs, optimize_active
from assignors.streams.configs import Strategy
from assignors.streams.intern import intern_clients, intern_subtopologies, intern_tasks
from assignors.streams.model import KafkaStreamsAssignment, TaskType
from assignors.streams.rules import Obstacle, Reason, costs_of, missing_rack, strategy_of
from assignors.streams.tags import Tagged, optimize_tagged, unrestrained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.model import Int32Array, Int64Array
    from assignors.streams.intern import Clients
    from assignors.streams.model import ApplicationState, ProcessId, TaskId
    from assignors.streams.params import RackAwareOptimizationParams
    from assignors.streams.standby import Standbys

    Assignments = Mapping[ProcessId, KafkaStreamsAssignment]


SAME: Final = Obstacle(
    reason=Reason.ALL_PLACES_COST_THE_SAME, message="every client costs the same for every task: nothing to gain"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """What came of it: an assignment for every client, and why it is unchanged, if that has a reason."""

    assignments: dict[ProcessId, KafkaStreamsAssignment]
    obstacle: Obstacle | None = None


def optimize_rack_aware_active_tasks(
    params: RackAwareOptimizationParams, assignments: Assignments, *, compatible: bool = False
) -> Optimization:
    """Actives where they cost least, by the configured strategy; how many each client has stays.

    An active that comes where its standby is changes places with it.

    Args:
        params: the application, which tasks may move (default: all actives), and prices.
        assignments: where tasks are.
        compatible: see above.

    Raises:
        AssignmentError: a task to optimise is assigned to nobody or more than once, or a client is unknown.
    """
    state = params.application_state
    plan = complete(state, assignments)
    scope = scope_of(params, plan, TaskType.ACTIVE)
    gate = _gate(params, scope, TaskType.ACTIVE, compatible=compatible)
    if isinstance(gate, Obstacle):
        return Optimization(assignments=plan, obstacle=gate)
    strategy, costs = gate
    clients = intern_clients(state)
    remote, remotes = intern_tasks(
        [state.all_tasks[task] for task in scope], TaskType.ACTIVE, clients, compatible=compatible
    )
    if not compatible and _all_the_same(remotes, costs):
        return Optimization(assignments=plan, obstacle=SAME)
    tasks = ActiveTasks(
        subtopology=intern_subtopologies(scope),
        remote=remote,
        remotes=remotes,
        rack=clients.rack,
        client=_owners(scope, plan, clients),
    )
    balance = strategy is Strategy.BALANCE_SUBTOPOLOGY
    client = optimize_active(tasks, costs, balance=balance, as_java=compatible)
    moved = np.flatnonzero(client != tasks.client).tolist()
    moves = [(scope[index], int(tasks.client[index]), int(client[index])) for index in moved]
    return Optimization(assignments=_moved_actives(plan, clients, moves, keep_standbys=not compatible))


def optimize_rack_aware_standby_tasks(
    params: RackAwareOptimizationParams,
    assignments: Assignments,
    *,
    compatible: bool = False,
    tag_keys: tuple[str, ...] | None = None,
) -> Optimization:
    """Standbys where they cost least; how many each client has stays, tags hold, and none comes beside its active.

    Exact where there are no tags, or each task has one standby; else see `assignors.streams.tags`.

    Args:
        params: the application, which tasks' standbys may move (default: all), and prices.
        assignments: where tasks are.
        compatible: see above.
        tag_keys: keys of the tags that hold, default `rack.aware.assignment.tags`, or none with `compatible`.

    Raises:
        AssignmentError: a client or a task is unknown.
    """
    state = params.application_state
    plan = complete(state, assignments)
    scope = scope_of(params, plan, TaskType.STANDBY)
    gate = _gate(params, scope, TaskType.STANDBY, compatible=compatible)
    if isinstance(gate, Obstacle):
        return Optimization(assignments=plan, obstacle=gate)
    if compatible:
        scope = scope_of(replace(params, tasks_to_optimize=None), plan, TaskType.STANDBY)
    if tag_keys is None:
        tag_keys = () if compatible else state.assignment_configs.rack_aware_assignment_tags
    clients = intern_clients(state, tag_keys)
    standbys = _standbys(state, scope, plan, clients)
    placed = optimize_tagged(Tagged(standbys=standbys, tags=clients.tags), gate[1])
    return Optimization(assignments=_moved_standbys(plan, clients, scope, standbys, placed))


def complete(state: ApplicationState, assignments: Assignments) -> dict[ProcessId, KafkaStreamsAssignment]:
    """The assignments in the order of the clients, with an empty one for every client that has none.

    Raises:
        AssignmentError: an assignment is for a client that the application does not know.
    """
    unknown = [process for process in assignments if process not in state.states]
    if unknown:
        raise AssignmentError(f"client {unknown[0]} has an assignment, but is not part of the application")
    return {process: assignments.get(process, KafkaStreamsAssignment(process_id=process)) for process in state.states}


def scope_of(params: RackAwareOptimizationParams, plan: Assignments, kind: TaskType) -> list[TaskId]:
    """The tasks that may move, ascending: those that were named, or all that are assigned.

    Raises:
        AssignmentError: a task is not part of the application.
    """
    tasks = params.tasks_to_optimize
    if tasks is None:
        tasks = frozenset().union(*(assignment.of_type(kind) for assignment in plan.values()))
    unknown = sorted(task for task in tasks if task not in params.application_state.all_tasks)
    if unknown:
        raise AssignmentError(f"task {unknown[0]} is to be optimised, but is not part of the application")
    return sorted(tasks)


def _gate(
    params: RackAwareOptimizationParams, scope: list[TaskId], kind: TaskType, *, compatible: bool
) -> tuple[Strategy, Costs] | Obstacle:
    state = params.application_state
    if not scope:
        return Obstacle(reason=Reason.NOTHING_TO_OPTIMIZE, message=f"there is no {kind.value} task to optimise")
    strategy = strategy_of(state)
    if isinstance(strategy, Obstacle):
        return strategy
    costs = costs_of(params, compatible=compatible)
    if isinstance(costs, Obstacle):
        return costs
    infos = state.all_tasks.values() if compatible else [state.all_tasks[task] for task in scope]
    return missing_rack(state, infos, kind, compatible=compatible) or (strategy, costs)


def _all_the_same(remotes: Int64Array, costs: Costs) -> bool:
    """KIP-925, 6: where every place costs the same, racks have nothing to decide."""
    return costs.traffic == 0 or bool((remotes == remotes[:, :1]).all())


def _owners(scope: list[TaskId], plan: Assignments, clients: Clients) -> Int32Array:
    """Client of each active task.

    Raises:
        AssignmentError: a task is active nowhere, or more than once.
    """
    wanted = set(scope)
    owner: dict[TaskId, ProcessId] = {}
    for process, assignment in plan.items():
        for task, role in assignment.tasks.items():
            if role is TaskType.ACTIVE and task in wanted and owner.setdefault(task, process) != process:
                raise AssignmentError(f"task {task} is active on {owner[task]} and on {process}; keep one of them")
    missing = next((task for task in scope if task not in owner), None)
    if missing is not None:
        raise AssignmentError(f"task {missing} is active nowhere; assign it before it is optimised")
    return np.array([clients.index[owner[task]] for task in scope], np.int32)


def _moved_actives(
    plan: Assignments, clients: Clients, moves: list[tuple[TaskId, int, int]], *, keep_standbys: bool
) -> dict[ProcessId, KafkaStreamsAssignment]:
    """The plan after these moves (task, from, to)."""
    tasks = {process: dict(assignment.tasks) for process, assignment in plan.items()}
    for task, old, new in moves:
        source, target = tasks[clients.ids[old]], tasks[clients.ids[new]]
        del source[task]
        if keep_standbys and task in target:
            source[task] = TaskType.STANDBY
        target[task] = TaskType.ACTIVE
    return {process: replace(assignment, tasks=tasks[process]) for process, assignment in plan.items()}


def _standbys(state: ApplicationState, scope: list[TaskId], plan: Assignments, clients: Clients) -> Standbys:
    remote, remotes = intern_tasks([state.all_tasks[task] for task in scope], TaskType.STANDBY, clients)
    number = {task: index for index, task in enumerate(scope)}
    held = {TaskType.ACTIVE: [(0, 0)][:0], TaskType.STANDBY: [(0, 0)][:0]}
    for process, assignment in plan.items():
        for task, role in assignment.tasks.items():
            if task in number:
                held[role].append((number[task], clients.index[process]))
    standby = np.array(sorted(held[TaskType.STANDBY]), np.int32).reshape(-1, 2)
    fixed = np.array(held[TaskType.ACTIVE], np.int32).reshape(-1, 2)
    rack = np.zeros(int(clients.group.max()) + 1, np.int32)
    rack[clients.group] = clients.rack
    return unrestrained(
        task=standby[:, 0],
        client=standby[:, 1],
        remote=remote,
        remotes=remotes,
        group=clients.group,
        rack=rack,
        fixed_task=fixed[:, 0],
        fixed_client=fixed[:, 1],
    )


def _moved_standbys(
    plan: Assignments, clients: Clients, scope: list[TaskId], standbys: Standbys, placed: Int32Array
) -> dict[ProcessId, KafkaStreamsAssignment]:
    tasks = {process: dict(assignment.tasks) for process, assignment in plan.items()}
    moved = np.flatnonzero(placed != standbys.client)
    for task, client in zip(standbys.task[moved].tolist(), standbys.client[moved].tolist(), strict=True):
        del tasks[clients.ids[client]][scope[task]]
    for task, client in zip(standbys.task[moved].tolist(), placed[moved].tolist(), strict=True):
        tasks[clients.ids[client]][scope[task]] = TaskType.STANDBY
    return {process: replace(assignment, tasks=tasks[process]) for process, assignment in plan.items()}
