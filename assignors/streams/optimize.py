"""KIP-924's `optimizeRackAwareActiveTasks` and `optimizeRackAwareStandbyTasks`, exact; reports why nothing was done.

`compatible=True` gives Kafka's behaviour where Kafka's public utility deviates from the KIPs: an active task's
changelogs count; an active that moves to its standby's client deletes the standby; overrides do not replace missing
configured costs; racks must be known for every task; tags and `for_tasks` do not restrict standbys; shares of a
subtopology are rounded as in Java and enforced even where all clients cost the same. In both modes standbys follow
`min_traffic`, as KIP-925 (4.C) says: Kafka's utility applies balance_subtopology to pairs of clients, which can raise
the cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from samerack.assignors.model import AssignmentError
from samerack.assignors.streams.active import ActiveTasks, Costs, optimize_active
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.assignors.streams.configs import Strategy
from samerack.assignors.streams.intern import intern_clients, intern_subtopologies, intern_tasks
from samerack.assignors.streams.plans import complete, owners_of, standbys_of, with_moved_actives, with_moved_standbys
from samerack.assignors.streams.rules import Obstacle, Reason, all_the_same, costs_of, missing_rack, strategy_of
from samerack.assignors.streams.tags import Tagged, optimize_tagged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from samerack.assignors.streams.model import ProcessId, TaskId
    from samerack.assignors.streams.params import RackAwareOptimizationParams

    Assignments = Mapping[ProcessId, KafkaStreamsAssignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """The result: an assignment for every client, and the reason if it was not optimized."""

    assignments: dict[ProcessId, KafkaStreamsAssignment]
    obstacle: Obstacle | None = None


def optimize_rack_aware_active_tasks(
    params: RackAwareOptimizationParams, assignments: Assignments, *, compatible: bool = False
) -> Optimization:
    """Moves actives to where they cost least, by the configured strategy; each client keeps its number of actives.

    An active that moves to its standby's client swaps with the standby.

    Args:
        params: the application, the tasks that may move (default: all actives), and costs.
        assignments: the current plan.
        compatible: see the module docstring.

    Raises:
        AssignmentError: a task to optimize is not assigned, or more than once, or a client is unknown.
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
    tasks = ActiveTasks(
        subtopology=intern_subtopologies(scope),
        remote=remote,
        remotes=remotes,
        rack=clients.rack,
        client=owners_of(scope, plan, clients),
    )
    balance = strategy is Strategy.BALANCE_SUBTOPOLOGY
    client = optimize_active(tasks, costs, balance=balance, as_java=compatible)
    moved = np.flatnonzero(client != tasks.client).tolist()
    moves = [(scope[index], int(tasks.client[index]), int(client[index])) for index in moved]
    return Optimization(assignments=with_moved_actives(plan, clients, moves, keep_standbys=not compatible))


def optimize_rack_aware_standby_tasks(
    params: RackAwareOptimizationParams,
    assignments: Assignments,
    *,
    compatible: bool = False,
    tag_keys: tuple[str, ...] | None = None,
    keep_racks_apart: bool = False,
) -> Optimization:
    """Moves standbys to where they cost least; each client keeps its number of standbys, and tags hold.

    No standby moves to the client of its active. Exact unless there are several tag keys and several standbys per task:
    see `assignors.streams.tags`.

    Args:
        params: the application, the tasks whose standbys may move (default: all), and costs.
        assignments: the current plan.
        compatible: see the module docstring.
        tag_keys: keys of the tags that hold, default `rack.aware.assignment.tags`, or none with `compatible`.
        keep_racks_apart: racks count as a tag, so no task is in fewer racks than before: reliability before cost if
            there are no tags. Kafka cannot do this.

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
    clients = intern_clients(state, tag_keys, rack_is_tag=keep_racks_apart)
    standbys = standbys_of(state, scope, plan, clients)
    placed = optimize_tagged(Tagged(standbys=standbys, tags=clients.tags), gate[1])
    return Optimization(assignments=with_moved_standbys(plan, clients, scope, standbys, placed))


def scope_of(params: RackAwareOptimizationParams, plan: Assignments, kind: TaskType) -> list[TaskId]:
    """Returns the tasks that may move, ascending: those that are given, or else all that are assigned.

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
    obstacle = missing_rack(state, infos, kind, compatible=compatible)
    if obstacle is None and not compatible:
        obstacle = all_the_same(state, infos, kind, costs.traffic)
    return obstacle or (strategy, costs)
