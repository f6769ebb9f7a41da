"""Clients and their tasks while tasks are dealt, kept sorted by load so that no placement looks at all clients."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from samerack.assignors.streams.sticky_numbers import Numbers

Fullness: TypeAlias = tuple[float, int]
Entry: TypeAlias = tuple[float, int, int, int]

ASCENDING: Final = 1
"""Buckets of a set whose order is that of the clients' numbers."""

_EMPTY: Final = 0.0, 0


class LoadedClients:
    """Clients by tasks per thread; among equals in the order of a Java set, which depends on its number of buckets.

    Clients without tasks come first whatever their threads.

    Attributes:
        tasks: tasks of each client; only `give` changes them.
    """

    def __init__(self, numbers: Numbers, tasks: list[set[int]], buckets: int, *, prefers_threads: bool) -> None:
        """Sort the clients.

        Args:
            numbers: the clients.
            tasks: tasks of each client, not copied.
            buckets: buckets of the set that is used most.
            prefers_threads: of two clients with equal load the one with more threads comes first.
        """
        self.tasks = tasks
        self._numbers = numbers
        self._prefers_threads = prefers_threads
        self._fullness = [self._compute(client) for client in range(len(tasks))]
        self._orders: dict[int, list[Entry]] = {}
        self._least = self._order(buckets)

    def fullness(self, client: int) -> Fullness:
        """Return a sort key; a smaller one means that the client is less full."""
        return self._fullness[client]

    def is_crowded(self, client: int) -> bool:
        """Return whether it has a task for every thread and another client is less full."""
        if len(self.tasks[client]) < self._numbers.threads[client]:
            return False
        return self._least[0][:2] < self._fullness[client]

    def ascending(self, buckets: int) -> Iterator[int]:
        """Yield the clients, the least loaded first; no task may be given meanwhile."""
        for *_, client in self._order(buckets):
            yield client

    def first_beside_others(self, near: AbstractSet[int], clients: Iterable[int]) -> int:
        """Return the first client that is empty or has a task that is not among `near`, or else the first.

        Args:
            near: tasks beside which the task is already.
            clients: at least one.
        """
        first = -1
        for client in clients:
            mine = self.tasks[client]
            if not mine or not mine <= near:
                return client
            if first < 0:
                first = client
        return first

    def give(self, task: int, client: int) -> None:
        """Add a task to a client."""
        old = self._fullness[client]
        self.tasks[client].add(task)
        new = self._fullness[client] = self._compute(client)
        for buckets, order in self._orders.items():
            place = self._numbers.bucket(client, buckets), client
            del order[bisect_left(order, (*old, *place))]
            insort(order, (*new, *place))

    def _order(self, buckets: int) -> list[Entry]:
        if buckets not in self._orders:
            bucket = self._numbers.bucket
            self._orders[buckets] = sorted(
                (*fullness, bucket(client, buckets), client) for client, fullness in enumerate(self._fullness)
            )
        return self._orders[buckets]

    def _compute(self, client: int) -> Fullness:
        if not self.tasks[client]:
            return _EMPTY
        threads = self._numbers.threads[client]
        return len(self.tasks[client]) / threads, -threads if self._prefers_threads else 0
