"""KIP-924's `optimizeRackAwareActiveTasks` and `optimizeRackAwareStandbyTasks`, exact, and what they depend on.

These are parameters and costs, and whether racks count at all (KIP-925, 5 and 6, and 4.D for tags). Nothing is logged:
the reason why nothing was done is a value that callers show.

`compatible=True` gives Kafka's behaviour where Kafka's public utility deviates from the KIPs: an active task's
changelogs count; an active that moves to its standby's client deletes the standby; overrides do not replace missing
configured costs; racks must be known for every task; tags and `for_tasks` do not restrict standbys; shares of a
subtopology are rounded as in Java and enforced even where all clients cost the same. In both modes standbys follow
`min_traffic`, as KIP-925 (4.C) says: Kafka's utility applies balance_subtopology to pairs of clients, which can raise
the cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import ActiveTasks, Costs, optimize_active
from samerack.assignors.streams.application import Strategy, strategy_named
from samerack.assignors.streams.assignment import Assignments, Plan, TaskType
from samerack.assignors.streams.board import Board
from samerack.assignors.streams.evaluate import reads_of, relevant_partitions, weight_across
from samerack.assignors.streams.intern import (
    complete,
    intern_clients,
    intern_subtopologies,
    intern_tasks,
    moves_of,
    owners_of,
    standbys_of,
)
from samerack.assignors.streams.tags import Tagged, optimize_tagged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from samerack.assignors.streams.application import ApplicationState, TaskId
    from samerack.assignors.streams.intern import Holder, Move


@dataclass(frozen=True, slots=True, kw_only=True)
class RackAwareOptimizationParams:
    """Parameters of one optimization; each `for_` and `with_` method returns a new value (KIP-924).

    Attributes:
        application_state: the application, with its configured costs and strategy.
        traffic_cost_override: replaces the configured cost of a partition that is read across racks.
        non_overlap_cost_override: replaces the configured cost of a moved task.
        tasks_to_optimize: the only tasks that may move; None for all that are assigned.
    """

    application_state: ApplicationState
    traffic_cost_override: int | None = None
    non_overlap_cost_override: int | None = None
    tasks_to_optimize: frozenset[TaskId] | None = None

    def __post_init__(self) -> None:
        """Refuse negative costs, which would reward moves and cross-rack reads."""
        for cost in (self.traffic_cost_override, self.non_overlap_cost_override):
            if cost is not None and cost < 0:
                raise AssignmentError(f"cost override {cost} is negative; give 0 or more")

    def for_stateful_tasks(self) -> RackAwareOptimizationParams:
        """Return the parameters for all stateful tasks."""
        return self.for_tasks(task for task, info in self.application_state.all_tasks.items() if info.is_stateful)

    def for_stateless_tasks(self) -> RackAwareOptimizationParams:
        """Return the parameters for all stateless tasks."""
        return self.for_tasks(task for task, info in self.application_state.all_tasks.items() if not info.is_stateful)

    def for_tasks(self, tasks: Iterable[TaskId]) -> RackAwareOptimizationParams:
        """Return the parameters for these tasks."""
        return replace(self, tasks_to_optimize=frozenset(tasks))

    def with_traffic_cost_override(self, cost: int) -> RackAwareOptimizationParams:
        """Return the parameters with another cost of a partition that is read across racks."""
        return replace(self, traffic_cost_override=cost)

    def with_non_overlap_cost_override(self, cost: int) -> RackAwareOptimizationParams:
        """Return the parameters with another cost of a moved task."""
        return replace(self, non_overlap_cost_override=cost)


class ObstacleKind(Enum):
    """Kinds of obstacles to rack-aware optimization."""

    STRATEGY_IS_NONE = "strategy_is_none"
    NO_TRAFFIC_COST = "no_traffic_cost"
    NO_NON_OVERLAP_COST = "no_non_overlap_cost"
    CLIENT_WITHOUT_RACK = "client_without_rack"
    PARTITION_WITHOUT_RACK = "partition_without_rack"
    ALL_PLACES_COST_THE_SAME = "all_places_cost_the_same"
    NOTHING_TO_OPTIMIZE = "nothing_to_optimize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """The reason why nothing was optimized, and a message that says what to do."""

    reason: ObstacleKind
    message: str


def costs_of(params: RackAwareOptimizationParams, *, compatible: bool = False) -> Costs | Obstacle:
    """Return the costs: an override has priority over the configured cost, and both costs are needed (KIP-925, 5).

    With `compatible` both must be configured even if overrides are given, as Kafka requires.
    """
    configs = params.application_state.assignment_configs
    traffic, non_overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
    if not compatible or (traffic is not None and non_overlap is not None):
        traffic = params.traffic_cost_override if params.traffic_cost_override is not None else traffic
        non_overlap = params.non_overlap_cost_override if params.non_overlap_cost_override is not None else non_overlap
    if traffic is None:
        return Obstacle(
            reason=ObstacleKind.NO_TRAFFIC_COST, message="no traffic cost: set rack.aware.assignment.traffic_cost"
        )
    if non_overlap is None:
        return Obstacle(
            reason=ObstacleKind.NO_NON_OVERLAP_COST,
            message="no non-overlap cost: set rack.aware.assignment.non_overlap_cost",
        )
    return Costs(traffic=traffic, non_overlap=non_overlap)


def strategy_of(state: ApplicationState) -> Strategy | Obstacle:
    """Return the configured strategy, or an obstacle if it is `none`.

    Raises:
        AssignmentError: There is no such strategy.
    """
    strategy = strategy_named(state.assignment_configs.rack_aware_assignment_strategy)
    if strategy is Strategy.NONE:
        return Obstacle(
            reason=ObstacleKind.STRATEGY_IS_NONE,
            message="rack.aware.assignment.strategy is none: set min_traffic or balance_subtopology",
        )
    return strategy


def missing_rack(
    state: ApplicationState, tasks: Iterable[TaskId], kind: TaskType, *, compatible: bool = False
) -> Obstacle | None:
    """Return an obstacle for the first client, or partition of these tasks, without a known rack (KIP-925, 6).

    Args:
        state: the application; every client needs a rack.
        tasks: tasks whose partitions need racks.
        kind: the role of the tasks.
        compatible: see `relevant_partitions`.
    """
    for process, client in state.states.items():
        if client.contradicting_racks:
            racks = ", ".join(map(repr, client.contradicting_racks))
            return Obstacle(
                reason=ObstacleKind.CLIENT_WITHOUT_RACK,
                message=f"consumers of client {process} have different racks ({racks}): set one client.rack there",
            )
        if not client.rack_id:
            return Obstacle(
                reason=ObstacleKind.CLIENT_WITHOUT_RACK, message=f"client {process} has no rack: set client.rack there"
            )
    reads = reads_of(state, kind, compatible=compatible)
    blind = {number for number, read in enumerate(reads.distinct) if not all(racks for racks, _ in read)}
    task = next((task for task in tasks if reads.number[task] in blind), None) if blind else None
    if task is None:
        return None
    partitions = relevant_partitions(state.all_tasks[task], kind, compatible=compatible)
    partition = next(partition for partition in partitions if not partition.racks)
    return Obstacle(
        reason=ObstacleKind.PARTITION_WITHOUT_RACK,
        message=f"{partition.topic}-{partition.partition} of task {task} has no rack: set broker.rack on all brokers",
    )


def all_the_same(
    state: ApplicationState, tasks: Iterable[TaskId], kind: TaskType, traffic_cost: int
) -> Obstacle | None:
    """Return an obstacle if every client costs the same for each of these tasks (KIP-925, 6).

    Args:
        state: the application; every client and partition has a rack.
        tasks: the tasks.
        kind: the role of the tasks.
        traffic_cost: cost of a partition read across racks.
    """
    racks = {client.rack_id for client in state.states.values()}
    reads = reads_of(state, kind)
    for number in {reads.number[task] for task in tasks} if traffic_cost else ():
        if len({weight_across(reads.distinct[number], rack) for rack in racks}) > 1:
            return None
    return Obstacle(
        reason=ObstacleKind.ALL_PLACES_COST_THE_SAME,
        message=f"every client costs the same for every {kind.value.lower()} task: nothing to gain",
    )


def tag_warnings(state: ApplicationState) -> list[str]:
    """Return a warning if tags of clients contradict their racks (KIP-925, 4.D.III); tags win.

    Without tags or without racks there is nothing to compare.
    """
    tags = state.assignment_configs.rack_aware_assignment_tags
    racked = {process: client for process, client in state.states.items() if client.rack_id}
    if not tags or not racked:
        return []
    if "rack" not in tags:
        return ["rack.aware.assignment.tags has no key `rack` although clients have client.rack; tags decide"]
    differing = [client for client in racked.values() if client.client_tags.get("rack") != client.rack_id]
    return [
        f"client.tag.rack of {len(differing)} of {len(state.states)} clients is not client.rack: that of "
        f"{one.process_id} is {one.client_tags.get('rack')!r}, client.rack is {one.rack_id!r}; tags decide"
        for one in differing[:1]
    ]


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
    board = Board(params.application_state.states.values())
    board.put(plan)
    board.move_actives(moves, keep_standbys=not compatible)
    return Optimization(assignments=board.tasks_in(plan))


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
    return Optimization(assignments=with_moved_standbys(params.application_state, plan, moves))


def with_moved_standbys(state: ApplicationState, plan: Assignments, moves: Sequence[Move]) -> Plan:
    """Return the plan of all clients after these moves."""
    board = Board(state.states.values())
    board.put(plan)
    board.move_standbys(moves)
    return board.tasks_in(plan)


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
