"""Kafka's rack-aware optimization, with its ties and pair swaps: for comparisons task by task (`compatible`).

The costs of actives equal those of `assignors.streams.active`; standbys are swapped between two clients at a time
(KIP-925, 4.C.I), which may miss the optimum that `assignors.streams.standby` finds.

Many plans have equal cost, and later steps (standbys, warm-ups) depend on the one that is chosen. Where plans are
compared with Kafka's task by task, this network is used; `assignors.flow` is faster by orders of magnitude and is used
everywhere else.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from samerack.assignors.streams.application import Strategy
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.evaluate import reads_of, weight_across

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from samerack.assignors.streams.active import Costs
    from samerack.assignors.streams.application import ApplicationState, TaskId
    from samerack.assignors.streams.board import Board, TaskHolder

    MoveRule = Callable[[TaskHolder, TaskHolder, TaskId], bool]

NOWHERE: Final = -1
ROUNDS: Final = 4
"""Maximum rounds of Kafka's pair swaps (`STANDBY_OPTIMIZER_MAX_ITERATION`, Kafka 4.3)."""

MAX_ARCS: Final = 2_000
"""Tasks times clients up to which Kafka's order is followed: above it, cycle cancelling takes minutes."""

MAX_OWN_ARCS: Final = 300
"""The same where any order is as good and Kafka's only allows comparison: a fraction of a second, as clients wait."""

MAX_OWN_WORK: Final = 4_000_000
"""Tasks squared * clients * (tasks + clients) up to which the sticky assignors try it: half a second for all runs."""


class KafkaNetwork:
    """Klein's cycle cancelling (KIP-925, 4.A) in the order of Kafka's code.

    Nodes and arcs are in ascending order by number, one Bellman-Ford run from all nodes at once finds each cycle, and
    it is the cycle that its last pass finds first. Nodes are 0..nodes-1; arc `a` and its reverse `a ^ 1` share their
    flow. There is at most one arc between two nodes.
    """

    def __init__(self, nodes: int) -> None:
        self._out: list[dict[int, int]] = [{} for _ in range(nodes)]
        self._head: list[int] = []
        self._cost: list[int] = []
        self._room: list[int] = []

    def add(self, tail: int, head: int, *, capacity: int, cost: int = 0, flow: int = 0) -> int:
        """Add an arc; return its number."""
        arc = len(self._head)
        for start, end, price, room in ((tail, head, cost, capacity - flow), (head, tail, -cost, flow)):
            self._out[start][end] = len(self._head)
            self._head.append(end)
            self._cost.append(price)
            self._room.append(room)
        return arc

    def flow(self, arc: int) -> int:
        """Return the units on an arc."""
        return self._room[arc ^ 1]

    def fill(self, source: int, sink: int) -> None:
        """Send the maximum flow from source to sink, along one shortest path at a time (Edmonds and Karp)."""
        self._sort()
        while path := self._path(source, sink):
            self._push(path)

    def cheapen(self) -> None:
        """Cancel all negative cycles: the flow then costs least."""
        self._sort()
        while cycle := self._negative_cycle():
            self._push(cycle)

    def _sort(self) -> None:
        self._out = [dict(sorted(arcs.items())) for arcs in self._out]

    def _push(self, arcs: list[int]) -> None:
        units = min(self._room[arc] for arc in arcs)
        for arc in arcs:
            self._room[arc] -= units
            self._room[arc ^ 1] += units

    def _path(self, source: int, sink: int) -> list[int]:
        entered = {source: NOWHERE}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for head, arc in self._out[node].items():
                if head not in entered and self._room[arc]:
                    entered[head] = arc
                    if head == sink:
                        return self._back(sink, entered)
                    queue.append(head)
        return []

    def _back(self, sink: int, entered: dict[int, int]) -> list[int]:
        path = []
        arc = entered[sink]
        while arc != NOWHERE:
            path.append(arc)
            arc = entered[self._head[arc ^ 1]]
        return path

    def _negative_cycle(self) -> list[int]:
        """Return the arcs of a negative cycle; empty without one."""
        entered: list[int] = [NOWHERE] * len(self._out)
        node = self._node_behind_cycle(entered)
        if node == NOWHERE:
            return []
        seen = set()
        while node not in seen:
            seen.add(node)
            node = self._head[entered[node] ^ 1]
        cycle = [entered[node]]
        while (tail := self._head[cycle[-1] ^ 1]) != node:
            cycle.append(entered[tail])
        return cycle

    def _node_behind_cycle(self, entered: list[int]) -> int:
        """Return a node whose distance still shrinks in the last pass, so its ancestors have a cycle; else NOWHERE."""
        distance = [0] * len(self._out)  # as if from an extra node with arcs of cost 0 to all nodes
        open_arcs = list(self._open_arcs())
        last = len(self._out)
        for turn in range(last + 1):
            shrank = False
            for tail, head, cost, arc in open_arcs:
                through = distance[tail] + cost
                if through < distance[head]:
                    distance[head] = through
                    entered[head] = arc
                    shrank = True
                    if turn == last:
                        return head
            if not shrank:
                break
        return NOWHERE

    def _open_arcs(self) -> Iterator[tuple[int, int, int, int]]:
        for tail, arcs in enumerate(self._out):
            for head, arc in arcs.items():
                if self._room[arc]:
                    yield tail, head, self._cost[arc], arc


@dataclass(frozen=True, slots=True, kw_only=True)
class RackOptimization:
    """The costs and the graph of one optimization.

    Attributes:
        state: the application.
        kind: role of the tasks to place.
        costs: the costs that apply.
        strategy: selects the graph.
        with_changelogs: whether an active's changelogs count as well (Kafka's public utility).
    """

    state: ApplicationState
    kind: TaskType
    costs: Costs
    strategy: Strategy
    with_changelogs: bool = False

    def price(self, task: TaskId, holder: TaskHolder) -> int:
        """Return the cost of the task on that client, with the move if it is not there yet."""
        reads = reads_of(self.state, self.kind, compatible=self.with_changelogs)
        across = weight_across(reads.distinct[reads.number[task]], holder.rack)
        return across * self.costs.traffic + (0 if task in holder.of_type(self.kind) else self.costs.non_overlap)


def place_actives(optimization: RackOptimization, board: Board, tasks: Collection[TaskId]) -> None:
    """Move these actives to where they cost least; each client keeps its number of them."""
    _place(optimization, list(board.values()), sorted(tasks))


def swap_standbys(optimization: RackOptimization, board: Board, may_move: MoveRule) -> None:
    """Swap standbys between two clients of different racks at a time, in up to `ROUNDS` rounds while any moves."""
    holders = list(board.values())
    for _ in range(ROUNDS):
        moved = False
        for index, one in enumerate(holders):
            for other in holders[index + 1 :]:
                moved |= one.rack != other.rack and _swap(optimization, one, other, may_move)
        if not moved:
            break


def _swap(optimization: RackOptimization, one: TaskHolder, other: TaskHolder, may_move: MoveRule) -> bool:
    there = [task for task in one.standby if not other.has(task) and may_move(one, other, task)]
    back = [task for task in other.standby if not one.has(task) and may_move(other, one, task)]
    return bool(there and back) and _place(optimization, [one, other], sorted([*there, *back]))


def _place(optimization: RackOptimization, holders: list[TaskHolder], tasks: list[TaskId]) -> bool:
    """Place the tasks on these clients by the network; return whether any moved."""
    build = _balanced if optimization.strategy is Strategy.BALANCE_SUBTOPOLOGY else _free
    plan = build(optimization, holders, tasks)
    moves = [(task, holder) for task, holder in plan if task not in holder.of_type(optimization.kind)]
    for task, _ in moves:
        for holder in holders:
            holder.of_type(optimization.kind).discard(task)
    for task, holder in moves:
        holder.give(task, optimization.kind)
    return bool(moves)


def _counts(optimization: RackOptimization, holders: list[TaskHolder], tasks: list[TaskId]) -> list[int]:
    return [sum(task in holder.of_type(optimization.kind) for task in tasks) for holder in holders]


def _free(
    optimization: RackOptimization, holders: list[TaskHolder], tasks: list[TaskId]
) -> Iterable[tuple[TaskId, TaskHolder]]:
    """Solve algorithm I: source, tasks, clients, sink, with the current plan as initial flow."""
    first_client = 1 + len(tasks)
    sink = first_client + len(holders)
    network = KafkaNetwork(sink + 1)
    chosen = []
    for node, task in enumerate(tasks, start=1):
        network.add(0, node, capacity=1, flow=1)
        for client, holder in enumerate(holders, start=first_client):
            here = int(task in holder.of_type(optimization.kind))
            arc = network.add(node, client, capacity=1, cost=optimization.price(task, holder), flow=here)
            chosen.append((task, holder, arc))
    for client, count in enumerate(_counts(optimization, holders, tasks), start=first_client):
        network.add(client, sink, capacity=count, flow=count)
    network.cheapen()
    return [(task, holder) for task, holder, arc in chosen if network.flow(arc)]


def _balanced(
    optimization: RackOptimization, holders: list[TaskHolder], tasks: list[TaskId]
) -> Iterable[tuple[TaskId, TaskHolder]]:
    """Solve algorithm II: between tasks and clients one node per subtopology and client, with a limit."""
    groups = sorted({task.subtopology for task in tasks})
    first_holder = 1 + len(tasks)
    first_client = first_holder + len(holders) * len(groups)
    sink = first_client + len(holders)
    network = KafkaNetwork(sink + 1)
    chosen = []
    for node, task in enumerate(tasks, start=1):
        network.add(0, node, capacity=1)
        row = first_holder + len(holders) * groups.index(task.subtopology)
        for column, holder in enumerate(holders):
            chosen.append(
                (task, holder, network.add(node, row + column, capacity=1, cost=optimization.price(task, holder)))
            )
    for column, count in enumerate(_counts(optimization, holders, tasks)):
        network.add(first_client + column, sink, capacity=count)
        for row, group in enumerate(groups):
            size = sum(task.subtopology == group for task in tasks)
            limit = math.ceil(count / len(tasks) * size)  # divided first, as Kafka does: rounding may add one
            network.add(first_holder + len(holders) * row + column, first_client + column, capacity=limit)
    network.fill(0, sink)
    network.cheapen()
    return [(task, holder) for task, holder, arc in chosen if network.flow(arc)]
