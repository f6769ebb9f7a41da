"""`HighAvailabilityTaskAssignor`: KIP-441's balance, warm-ups and probing rebalances, with KIP-925's racks.

The target depends on clients, tasks and racks alone, not on who has what: therefore probing rebalances end once the
warm-ups have caught up (KIP-925, 4: "the computed assignment must converge"). Only then lags decide what runs where in
the meantime, which is why a task that racks send elsewhere stays with its owner until its new place is warm.

Among targets of one cost Kafka's is taken, up to a size (`assignors.streams.kafka_racks`), and where nothing else says
whose turn it is, the order of Kafka's sets: as good as any other, and what follows compares with Kafka's task by
task. Standbys cost least; `compatible=True` leaves them where Kafka's swaps of pairs do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assignors.streams.active import Costs
from assignors.streams.board import board_of
from assignors.streams.default_standby import default_standby_task_assignment
from assignors.streams.java_order import tasks_in_java_order
from assignors.streams.model import TaskType
from assignors.streams.movements import Lags, Warmups, move_actives, move_standbys
from assignors.streams.plugin import TaskAssignment
from assignors.streams.rack_steps import STATELESS, RackSteps, configured_costs, enabled_together
from assignors.streams.registry import Outcome, Request
from assignors.streams.rules import tag_warnings
from assignors.streams.threads import balance_over_threads, deal_by_active_load, deal_in_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignors.streams.board import Board, Seat
    from assignors.streams.model import ApplicationState
    from assignors.streams.plugin import AssignmentError, GroupAssignment, GroupSubscription

COSTS: Final = Costs(traffic=10, non_overlap=1)
"""Prices where none are configured: few reads across racks before few moves (KIP-925, 4.B.III)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighAvailabilityTaskAssignor:
    """KIP-924's plug-in around `high_availability`.

    Attributes:
        clock_ms: the present in ms since 1970, from which the deadline of a probing rebalance is counted.
    """

    clock_ms: Callable[[], int]

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Decide (see `high_availability`).

        Raises:
            TaskAssignmentError: lags could not be computed.
        """
        return high_availability(Request(state=application_state, now_ms=self.clock_ms())).assignment

    def on_assignment_computed(
        self, assignment: GroupAssignment, subscription: GroupSubscription, error: AssignmentError
    ) -> None:
        """Nothing to do: this assignor remembers nothing."""


def high_availability(request: Request) -> Outcome:
    """Actives, standbys and warm-ups of an application (KIP-925, 3 and 4; KIP-441; KIP-708).

    1. Stateful tasks go round, are balanced over threads, and then to where they read least across racks.
    2. Standbys go to the least loaded clients, or apart by tags, are balanced, and read least across racks.
    3. Tasks run on caught-up clients where their targets are not, with up to `max_warmup_replicas` warm-ups.
    4. Stateless tasks go to the clients with the fewest actives per thread, and then follow racks.

    While tasks are away from their targets the first client asks for a probing rebalance after the configured interval.

    Args:
        request: the application, with a lag of every stateful task for every client.

    Raises:
        TaskAssignmentError: lags could not be computed.
        AssignmentError: a lag is missing, or a setting means nothing.
    """
    state = request.state
    clients = state.kafka_streams_states(compute_task_lags=True)
    configs = state.assignment_configs
    stateful = [task for task, info in state.all_tasks.items() if info.is_stateful]
    board = board_of(state)
    costs = configured_costs(state, COSTS)
    gates = enabled_together(state, None if request.compatible else costs)
    racks = RackSteps(state, gates, compatible=request.compatible, kafkas_ties=True)

    deal_in_turn(board, stateful)
    balance_over_threads(board, TaskType.ACTIVE)
    racks.optimize_actives(board, stateful, costs)
    if configs.num_standby_replicas:
        _add_standbys(state, board)
        racks.optimize_standbys(board, costs, tags=True)

    warmups = Warmups(left=configs.max_warmup_replicas, given=set())
    lags = Lags(clients, stateful, configs.acceptable_recovery_lag)
    moved = move_actives(board, lags, warmups) + move_standbys(board, lags, warmups)

    stateless = [task for task, info in state.all_tasks.items() if not info.is_stateful]
    deal_by_active_load(board, stateless)
    racks.optimize_actives(board, stateless, STATELESS)
    return Outcome(
        assignment=_answer(board, request.now_ms + configs.probing_rebalance_interval_ms if moved else None),
        probing_rebalance=moved > 0,
        obstacle=gates.obstacle,
        warnings=tuple(tag_warnings(state)),
        costs=costs,
    )


def _answer(board: Board, deadline: int | None) -> TaskAssignment:
    """What everybody gets; the first client asks for the follow-up."""
    first, *others = board.assignments().values()
    return TaskAssignment(assignment=(first.with_followup_rebalance(deadline), *others))


def _add_standbys(state: ApplicationState, board: Board) -> None:
    tagged = bool(state.assignment_configs.rack_aware_assignment_tags)
    late = tasks_in_java_order(state.all_tasks) if tagged else None
    board.put(default_standby_task_assignment(state, board.assignments(), late_order=late).assignments)
    balance_over_threads(board, TaskType.STANDBY, _same_tags if tagged else lambda *_: True)


def _same_tags(source: Seat, target: Seat) -> bool:
    """Between such clients standbys may move without a look at their other copies (KIP-708)."""
    return all(target.tags.get(key) == value for key, value in source.tags.items())
