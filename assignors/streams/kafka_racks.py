"""Kafka's rack-aware optimization, with its ties and pair swaps: for comparisons task by task (`compatible`).

The costs of actives equal those of `assignors.streams.active`; standbys are swapped between two clients at a time
(KIP-925, 4.C.I), which may miss the optimum that `assignors.streams.standby` finds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.configs import Strategy
from samerack.assignors.streams.kafka_network import KafkaNetwork
from samerack.assignors.streams.rules import relevant_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from samerack.assignors.streams.active import Costs
    from samerack.assignors.streams.board import Board, Seat
    from samerack.assignors.streams.model import ApplicationState, TaskId

    MoveRule = Callable[[Seat, Seat, TaskId], bool]

ROUNDS: Final = 4
"""Maximum rounds of Kafka's pair swaps (`STANDBY_OPTIMIZER_MAX_ITERATION`, Kafka 4.3)."""

MOST_ARCS: Final = 2_000
"""Tasks times clients up to which Kafka's order is followed: above it, cycle cancelling takes minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The costs and the graph of one optimization.

    Attributes:
        state: the application.
        kind: role of the tasks to place.
        costs: the costs that apply.
        strategy: selects the graph.
        with_changelogs: whether an active's changelogs count as well (Kafka's public utility).
        known: cache of cross-rack partitions by task and rack.
    """

    state: ApplicationState
    kind: TaskType
    costs: Costs
    strategy: Strategy
    with_changelogs: bool = False
    known: dict[tuple[TaskId, str], int] = field(default_factory=dict, compare=False)

    def price(self, task: TaskId, seat: Seat) -> int:
        """Returns the cost of the task on that client, with the move if it is not there yet."""
        key = task, seat.rack
        if key not in self.known:
            partitions = relevant_partitions(self.state.all_tasks[task], self.kind, compatible=self.with_changelogs)
            self.known[key] = sum(seat.rack not in (partition.racks or ()) for partition in partitions)
        moved = 0 if task in seat.of(self.kind) else self.costs.non_overlap
        return self.known[key] * self.costs.traffic + moved


def optimize_actives(question: Question, board: Board, tasks: Collection[TaskId]) -> None:
    """Moves these actives to where they cost least; each client keeps its number of them."""
    if tasks:
        _place(question, list(board.values()), sorted(tasks))


def swap_standbys(question: Question, board: Board, may_move: MoveRule) -> None:
    """Swaps standbys between two clients of different racks at a time, in up to `ROUNDS` rounds while any moves."""
    seats = list(board.values())
    for _ in range(ROUNDS):
        moved = False
        for index, one in enumerate(seats):
            for other in seats[index + 1 :]:
                moved |= one.rack != other.rack and _swap(question, one, other, may_move)
        if not moved:
            break


def _swap(question: Question, one: Seat, other: Seat, may_move: MoveRule) -> bool:
    there = [task for task in one.standby if not other.has(task) and may_move(one, other, task)]
    back = [task for task in other.standby if not one.has(task) and may_move(other, one, task)]
    return bool(there and back) and _place(question, [one, other], sorted([*there, *back]))


def _place(question: Question, seats: list[Seat], tasks: list[TaskId]) -> bool:
    """Places the tasks on these clients by the network; returns whether any moved."""
    build = _balanced if question.strategy is Strategy.BALANCE_SUBTOPOLOGY else _free
    moves = [(task, seat) for task, seat in build(question, seats, tasks) if task not in seat.of(question.kind)]
    for task, _ in moves:
        for seat in seats:
            seat.of(question.kind).discard(task)
    for task, seat in moves:
        seat.give(task, question.kind)
    return bool(moves)


def _counts(question: Question, seats: list[Seat], tasks: list[TaskId]) -> list[int]:
    return [sum(task in seat.of(question.kind) for task in tasks) for seat in seats]


def _free(question: Question, seats: list[Seat], tasks: list[TaskId]) -> Iterable[tuple[TaskId, Seat]]:
    """Solves algorithm I: source, tasks, clients, sink, with the current plan as initial flow."""
    first_client = 1 + len(tasks)
    sink = first_client + len(seats)
    network = KafkaNetwork(sink + 1)
    chosen = []
    for node, task in enumerate(tasks, start=1):
        network.add(0, node, capacity=1, flow=1)
        for client, seat in enumerate(seats, start=first_client):
            here = int(task in seat.of(question.kind))
            arc = network.add(node, client, capacity=1, cost=question.price(task, seat), flow=here)
            chosen.append((task, seat, arc))
    for client, count in enumerate(_counts(question, seats, tasks), start=first_client):
        network.add(client, sink, capacity=count, flow=count)
    network.cheapen()
    return [(task, seat) for task, seat, arc in chosen if network.flow(arc)]


def _balanced(question: Question, seats: list[Seat], tasks: list[TaskId]) -> Iterable[tuple[TaskId, Seat]]:
    """Solves algorithm II: between tasks and clients one node per subtopology and client, with a limit."""
    groups = sorted({task.subtopology for task in tasks})
    first_seat = 1 + len(tasks)
    first_client = first_seat + len(seats) * len(groups)
    sink = first_client + len(seats)
    network = KafkaNetwork(sink + 1)
    chosen = []
    for node, task in enumerate(tasks, start=1):
        network.add(0, node, capacity=1)
        row = first_seat + len(seats) * groups.index(task.subtopology)
        for column, seat in enumerate(seats):
            chosen.append((task, seat, network.add(node, row + column, capacity=1, cost=question.price(task, seat))))
    for column, count in enumerate(_counts(question, seats, tasks)):
        network.add(first_client + column, sink, capacity=count)
        for row, group in enumerate(groups):
            size = sum(task.subtopology == group for task in tasks)
            limit = math.ceil(count / len(tasks) * size)  # divided first, as Kafka does: rounding may add one
            network.add(first_seat + len(seats) * row + column, first_client + column, capacity=limit)
    network.fill(0, sink)
    network.cheapen()
    return [(task, seat) for task, seat, arc in chosen if network.flow(arc)]
