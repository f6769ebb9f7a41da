"""Kafka's choice among equal optima: Klein's cycle cancelling (KIP-925, 4.A) in the order of Kafka's code.

Many plans have equal cost, and later steps (standbys, warm-ups) depend on the one that is chosen. Where plans are
compared with Kafka's task by task, this network is used; `assignors.flow` is faster by orders of magnitude and is used
everywhere else. The order: nodes and arcs ascending by number, one Bellman-Ford run from all nodes at once for each
cycle, the cycle that its last pass finds first.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NOWHERE = -1


class KafkaNetwork:
    """Nodes 0..nodes-1 and arcs between them; arc `a` and its reverse `a ^ 1` share their flow.

    There is at most one arc between two nodes.
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
        """Cancel negative cycles until there is none: the flow then costs least."""
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
        """Return the arcs of a negative cycle; empty if there is none."""
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
