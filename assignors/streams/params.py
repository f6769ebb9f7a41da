"""The tasks that a rack-aware optimization may move, and its costs: KIP-924's `RackAwareOptimizationParams`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from samerack.assignors.model import AssignmentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from samerack.assignors.streams.model import ApplicationState, TaskId


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
