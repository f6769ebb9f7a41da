"""The rack-aware steps of an assignor, on a board: whether they are enabled (KIP-925, 6), and which engine runs.

The exact flows of `assignors.streams.optimize` decide. If requested, and if tasks are few enough, Kafka's own choice
among plans of equal cost is used (`assignors.streams.kafka_racks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import Strategy
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.evaluate import bill
from samerack.assignors.streams.kafka_racks import (
    MAX_ARCS,
    MAX_OWN_ARCS,
    RackOptimization,
    place_actives,
    swap_standbys,
)
from samerack.assignors.streams.optimize import (
    Obstacle,
    ObstacleKind,
    RackAwareOptimizationParams,
    all_the_same,
    costs_of,
    missing_rack,
    moves_of_actives,
    moves_of_standbys,
    optimize_rack_aware_standby_tasks,
    strategy_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from samerack.assignors.streams.application import ApplicationState, AssignmentConfigs, TaskId
    from samerack.assignors.streams.board import Board, TaskHolder
    from samerack.assignors.streams.kafka_racks import MoveRule

STATELESS: Final = Costs(traffic=1, non_overlap=0)
"""Costs of stateless tasks: they may move freely (KIP-925, 4.E)."""

MAX_SCALED: Final = 1_000_000
"""Costs up to which ties are decided by a scale: 10,000 tasks whose partitions weigh 1,000 stay far below 64 bits."""

NOT_ASKED: Final = Obstacle(
    reason=ObstacleKind.NOTHING_TO_OPTIMIZE, message="this assignor keeps tasks where they are and ignores racks"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """For each kind of task the rack-aware strategy, or the reason why racks do not count."""

    active: Strategy | Obstacle
    standby: Strategy | Obstacle

    @property
    def obstacle(self) -> Obstacle | None:
        """Returns the first reason, or None."""
        return next((gate for gate in (self.active, self.standby) if isinstance(gate, Obstacle)), None)


def configured_costs(configs: AssignmentConfigs, defaults: Costs) -> Costs:
    """Return the configured costs, with the assignor's default for each that is not configured."""
    traffic, non_overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
    return Costs(
        traffic=defaults.traffic if traffic is None else traffic,
        non_overlap=defaults.non_overlap if non_overlap is None else non_overlap,
    )


def enabled_together(state: ApplicationState, costs: Costs | None = None) -> Gates:
    """Enable racks for both kinds or none: every client, source and, with standbys, changelog must have a rack.

    Source: KIP-925, 6; Kafka's HighAvailabilityTaskAssignor and its former StickyTaskAssignor do the same.

    Args:
        state: the application.
        costs: the costs that apply; without them racks are also enabled where all clients cost the same, as in Kafka.

    Raises:
        AssignmentError: there is no such strategy.
    """
    strategy = strategy_of(state)
    if isinstance(strategy, Obstacle):
        return Gates(active=strategy, standby=strategy)
    missing = [missing_rack(state, state.all_tasks, kind) for kind in _kinds(state)]
    if obstacle := next(filter(None, missing), None):
        return Gates(active=obstacle, standby=obstacle)
    gates = Gates(active=strategy, standby=strategy)
    return gates if costs is None else _where_it_matters(state, gates, costs)


def enabled_apart(state: ApplicationState, costs: Costs, *, compatible: bool) -> Gates:
    """Enable racks for each kind whose clients and partitions all have racks, as KIP-924's utilities do.

    Kafka also requires configured costs, and racks of an active's changelogs (`compatible`).

    Args:
        state: the application.
        costs: the costs that apply.
        compatible: as in Kafka; racks are also enabled where all clients cost the same.

    Raises:
        AssignmentError: there is no such strategy.
    """
    strategy = strategy_of(state)
    if not isinstance(strategy, Obstacle) and compatible:
        configured = costs_of(RackAwareOptimizationParams(application_state=state), compatible=True)
        strategy = configured if isinstance(configured, Obstacle) else strategy
    if isinstance(strategy, Obstacle):
        return Gates(active=strategy, standby=strategy)
    standby: Strategy | Obstacle = strategy
    if TaskType.STANDBY in _kinds(state):
        standby = missing_rack(state, state.all_tasks, TaskType.STANDBY) or strategy
    active = missing_rack(state, state.all_tasks, TaskType.ACTIVE, compatible=compatible) or strategy
    gates = Gates(active=active, standby=standby)
    return gates if compatible else _where_it_matters(state, gates, costs)


def _kinds(state: ApplicationState) -> tuple[TaskType, ...]:
    """Return the kinds of tasks that the application has."""
    return (TaskType.ACTIVE, TaskType.STANDBY)[: 1 + (state.assignment_configs.num_standby_replicas > 0)]


def _where_it_matters(state: ApplicationState, gates: Gates, costs: Costs) -> Gates:
    """Disable racks for each kind whose tasks all cost the same on every client; stateless ones are always priced."""
    gate = {TaskType.ACTIVE: gates.active, TaskType.STANDBY: gates.standby}
    priced = [task for task, info in state.all_tasks.items() if costs.traffic or not info.is_stateful]
    for kind in _kinds(state):
        if not isinstance(gate[kind], Obstacle):
            traffic = STATELESS.traffic if kind is TaskType.ACTIVE else costs.traffic
            gate[kind] = all_the_same(state, priced, kind, traffic) or gate[kind]
    return Gates(active=gate[TaskType.ACTIVE], standby=gate[TaskType.STANDBY])


@dataclass(frozen=True, slots=True, kw_only=True)
class RackSteps:
    """Optimization of a board, for the kinds of tasks that the gates enable.

    Attributes:
        state: the application.
        gates: the kinds for which racks count.
        compatible: choose among plans of equal cost as Kafka does, and swap standbys in pairs.
        with_changelogs: an active's changelogs count.
        kafkas_ties: choose among plans of equal cost as Kafka does.
    """

    state: ApplicationState
    gates: Gates
    compatible: bool = False
    with_changelogs: bool = False
    kafkas_ties: bool = False

    def optimize_actives(self, board: Board, tasks: Sequence[TaskId], costs: Costs) -> None:
        """Move these assigned actives to where they cost least; each client keeps its number of them."""
        if isinstance(self.gates.active, Obstacle) or not tasks or not (costs.traffic or self.compatible):
            return
        if self._has_kafkas_ties():
            place_actives(self._question(TaskType.ACTIVE, costs, self.gates.active), board, tasks)
            return
        moves = moves_of_actives(self._params(costs).for_tasks(tasks), board.values(), compatible=self.with_changelogs)
        if not isinstance(moves, Obstacle):
            board.move_actives(moves, keep_standbys=not self.with_changelogs)

    def optimize_standbys(self, board: Board, costs: Costs, *, tags: bool, strategy: Strategy | None = None) -> None:
        """Move standbys to where they cost least; each client keeps its number of them.

        Args:
            board: the board, which is changed.
            costs: the costs that apply.
            tags: with Kafka's choice: no task may lose tags; the exact flow never lets it (KIP-708).
            strategy: with Kafka's choice: which graph places the standbys of two clients, default `min_traffic`.
        """
        if isinstance(self.gates.standby, Obstacle):
            return
        if not self._has_kafkas_ties():
            moves = moves_of_standbys(self._params(costs), board.values())
            if not isinstance(moves, Obstacle):
                board.move_standbys(moves)
            return
        before = board.assignments()
        keys = self.state.assignment_configs.rack_aware_assignment_tags
        # Kafka counts all tag keys, the KIP only the configured ones
        may_move = _keeping_tags(board, None if self.compatible else keys) if tags and keys else lambda *_: True
        swap_standbys(self._question(TaskType.STANDBY, costs, strategy or Strategy.MIN_TRAFFIC), board, may_move)
        if self.compatible:
            return
        plan = optimize_rack_aware_standby_tasks(self._params(costs), before).assignments
        exact, swapped = (
            bill(self.state, before, one, TaskType.STANDBY, costs).cost for one in (plan, board.assignments())
        )
        if exact < swapped:
            board.put(plan)

    def _has_kafkas_ties(self) -> bool:
        max_arcs = MAX_ARCS if self.compatible else MAX_OWN_ARCS
        return (self.compatible or self.kafkas_ties) and len(self.state.all_tasks) * len(self.state.states) <= max_arcs

    def _params(self, costs: Costs) -> RackAwareOptimizationParams:
        """Return the parameters with these costs; with `kafkas_ties` fewer reads, not fewer moves, at equal cost.

        Moves are there from a plan that was dealt just now, and mean nothing to the clients.
        """
        if self.kafkas_ties and 0 < costs.non_overlap <= MAX_SCALED and costs.traffic <= MAX_SCALED:
            scale = 1 + len(self.state.all_tasks) * max(1, self.state.assignment_configs.num_standby_replicas)
            costs = Costs(traffic=scale * costs.traffic, non_overlap=scale * costs.non_overlap - 1)
        return RackAwareOptimizationParams(
            application_state=self.state,
            traffic_cost_override=costs.traffic,
            non_overlap_cost_override=costs.non_overlap,
        )

    def _question(self, kind: TaskType, costs: Costs, strategy: Strategy) -> RackOptimization:
        return RackOptimization(
            state=self.state, kind=kind, costs=costs, strategy=strategy, with_changelogs=self.with_changelogs
        )


def _keeping_tags(board: Board, keys: tuple[str, ...] | None) -> MoveRule:
    """Return the rule that a task stays on clients with as many different tags when one copy moves (KIP-708)."""
    tags = {
        process: {(key, value) for key, value in holder.tags.items() if keys is None or key in keys}
        for process, holder in board.items()
    }

    def may_move(source: TaskHolder, target: TaskHolder, task: TaskId) -> bool:
        others = {
            pair
            for process, holder in board.items()
            if holder is not source and holder is not target and holder.has(task)
            for pair in tags[process]
        }
        return len(others | tags[target.process]) >= len(others | tags[source.process])

    return may_move
