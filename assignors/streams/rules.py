"""The parameters of a rack-aware optimization (KIP-924), and whether it is enabled: KIP-925, 5 and 6, and 4.D for tags.

Nothing is logged here; the reason for a disabled optimization is a value that callers show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.configs import Strategy, strategy_named
from samerack.assignors.streams.reads import reads_of, relevant_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from samerack.assignors.streams.application import ApplicationState, TaskId
    from samerack.assignors.streams.assignment import TaskType


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
        read = reads.distinct[number]
        if len({sum(weight for near, weight in read if rack not in (near or ())) for rack in racks}) > 1:
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
