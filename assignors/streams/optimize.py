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

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import ActiveTasks, Costs, optimize_active
from samerack.assignors.streams.assignment import Assignments, Plan, TaskType
from samerack.assignors.streams.configs import Strategy
from samerack.assignors.streams.intern import (
    complete,
    intern_clients,
    intern_subtopologies,
    intern_tasks,
    moves_of,
    owners_of,
    standbys_of,
    with_moved_actives,
    with_moved_standbys,
)
from samerack.assignors.streams.rules import Obstacle, ObstacleKind, all_the_same, costs_of, missing_rack, strategy_of
from samerack.assignors.streams.tags import Tagged, optimize_tagged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from samerack.assignors.streams.application import TaskId
    from samerack.assignors.streams.intern import Holder, Move
    from samerack.assignors.streams.rules import RackAwareOptimizationParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """The result: an assignment for every client, and the reason if it was not optimized."""

    assignments: Plan
    obstacle: Obstacle | None = None


def optimize_rack_aware_active_tasks(
    params: RackAwareOptimizationParams, assignments: Assignments, *, compatible: bool = False
) -> Optimization:
    """Move actives to where they cost least, by the configured strategy; each client keeps its number of actives.

    An active that moves to its standby's client swaps with the standby.

    Args:
        params: the application, the tasks that may move (default: all actives), and costs.
        assignments: the current plan.
        compatible: see the module docstring.

    Raises:
        AssignmentError: a task to optimize is not assigned, or more than once, or a client is unknown.
    """
    plan = complete(params.application_state, assignments)
    moves = moves_of_actives(params, plan.values(), compatible=compatible)
    if isinstance(moves, Obstacle):
        return Optimization(assignments=plan, obstacle=moves)
    return Optimization(assignments=with_moved_actives(plan, moves, keep_standbys=not compatible))


def moves_of_actives(
    params: RackAwareOptimizationParams, holders: Collection[Holder], *, compatible: bool = False
) -> list[Move] | Obstacle:
    """Return the moves of `optimize_rack_aware_active_tasks`, for all clients in ascending order.

    Raises:
        AssignmentError: a task to optimize is unknown, not assigned, or more than once.
    """
    state = params.application_state
    scope = _scope_of(params, holders, TaskType.ACTIVE)
    gate = _gate(params, scope, TaskType.ACTIVE, compatible=compatible)
    if isinstance(gate, Obstacle):
        return gate
    strategy, costs = gate
    clients = intern_clients(state)
    remote, remotes = intern_tasks(state, scope, TaskType.ACTIVE, clients, compatible=compatible)
    tasks = ActiveTasks(
        subtopology=intern_subtopologies(scope),
        remote=remote,
        remotes=remotes,
        rack=clients.rack,
        client=owners_of(scope, holders, clients),
    )
    balance = strategy is Strategy.BALANCE_SUBTOPOLOGY
    client = optimize_active(tasks, costs, balance=balance, as_java=compatible)
    return moves_of(scope, np.arange(len(scope), dtype=np.int32), tasks.client, client)


def optimize_rack_aware_standby_tasks(
    params: RackAwareOptimizationParams,
    assignments: Assignments,
    *,
    compatible: bool = False,
    keep_racks_apart: bool = False,
) -> Optimization:
    """Move standbys to where they cost least; each client keeps its number of standbys, and tags hold.

    No standby moves to the client of its active. Exact unless there are several tag keys and several standbys per task:
    see `assignors.streams.tags`.

    Args:
        params: the application, the tasks whose standbys may move (default: all), and costs.
        assignments: the current plan.
        compatible: see the module docstring.
        keep_racks_apart: racks count as a tag, so no task is in fewer racks than before: reliability before cost if
            there are no tags. Kafka cannot do this.

    Raises:
        AssignmentError: a client or a task is unknown.
    """
    plan = complete(params.application_state, assignments)
    moves = moves_of_standbys(params, plan.values(), compatible=compatible, keep_racks_apart=keep_racks_apart)
    if isinstance(moves, Obstacle):
        return Optimization(assignments=plan, obstacle=moves)
    return Optimization(assignments=with_moved_standbys(plan, moves))


def moves_of_standbys(
    params: RackAwareOptimizationParams,
    holders: Collection[Holder],
    *,
    compatible: bool = False,
    keep_racks_apart: bool = False,
) -> list[Move] | Obstacle:
    """Return the moves of `optimize_rack_aware_standby_tasks`, for all clients in ascending order.

    Raises:
        AssignmentError: a task is unknown.
    """
    state = params.application_state
    scope = _scope_of(params, holders, TaskType.STANDBY)
    gate = _gate(params, scope, TaskType.STANDBY, compatible=compatible)
    if isinstance(gate, Obstacle):
        return gate
    if compatible:
        scope = _scope_of(replace(params, tasks_to_optimize=None), holders, TaskType.STANDBY)
    tag_keys = () if compatible else state.assignment_configs.rack_aware_assignment_tags
    clients = intern_clients(state, tag_keys, rack_is_tag=keep_racks_apart)
    standbys = standbys_of(state, scope, holders, clients)
    placed = optimize_tagged(Tagged(standbys=standbys, tags=clients.tags), gate[1])
    return moves_of(scope, standbys.task, standbys.client, placed)


def _scope_of(params: RackAwareOptimizationParams, holders: Iterable[Holder], kind: TaskType) -> list[TaskId]:
    """Return the tasks that may move, ascending: those that are given, or else all that are assigned.

    Raises:
        AssignmentError: a task is not part of the application.
    """
    all_tasks, tasks = params.application_state.all_tasks, params.tasks_to_optimize
    if tasks is None:
        tasks = frozenset().union(*(holder.of_type(kind) for holder in holders))
    if unknown := tasks - all_tasks.keys():
        raise AssignmentError(f"task {min(unknown)} should be optimised, but is not part of the application")
    return [task for task in all_tasks if task in tasks]


def _gate(
    params: RackAwareOptimizationParams, scope: list[TaskId], kind: TaskType, *, compatible: bool
) -> tuple[Strategy, Costs] | Obstacle:
    state = params.application_state
    if not scope:
        return Obstacle(reason=ObstacleKind.NOTHING_TO_OPTIMIZE, message=f"no {kind.value} task to optimise")
    strategy = strategy_of(state)
    if isinstance(strategy, Obstacle):
        return strategy
    costs = costs_of(params, compatible=compatible)
    if isinstance(costs, Obstacle):
        return costs
    obstacle = missing_rack(state, state.all_tasks if compatible else scope, kind, compatible=compatible)
    if obstacle is None and not compatible:
        obstacle = all_the_same(state, scope, kind, costs.traffic)
    return obstacle or (strategy, costs)
