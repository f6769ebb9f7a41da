"""An application as small integers, for `assignors.streams.sticky_deal`: names hash and compare too slowly there.

Tasks and clients are numbered in ascending order. Numbers and groups are the same in all runs of an assignor, and are
computed once; the clients by load change while tasks are dealt.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from samerack.assignors.streams.java_sets import bucket_spread, info_hash, process_hash, table_size, task_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from samerack.assignors.streams.application import ApplicationState

Fullness: TypeAlias = tuple[float, int]
Entry: TypeAlias = tuple[float, int, int, int]

ASCENDING: Final = 1
"""Buckets of a set whose order is that of the clients' numbers."""

_EMPTY: Final = 0.0, 0


class TagGroups:
    """The clients of an application by their tags; without keys all clients are one group.

    Attributes:
        group: group of each client.
    """

    def __init__(self, state: ApplicationState, keys: Sequence[str]) -> None:
        """Group the clients by the tags of these keys."""
        tags = [
            frozenset(tag for tag in client.client_tags.items() if tag[0] in keys) for client in state.states.values()
        ]
        numbers = {found: number for number, found in enumerate(dict.fromkeys(tags))}
        self.group = [numbers[found] for found in tags]
        self._tags = list(numbers)
        self._size = Counter(self.group)
        self._answers: dict[tuple[int, ...], tuple[frozenset[int], int]] = {}

    def furthest_apart(self, holders: Iterable[int]) -> tuple[frozenset[int], int]:
        """Return the groups with the most tags that these clients do not have, and the number of other clients there.

        A group without other clients does not count.
        """
        groups = tuple(sorted(self.group[client] for client in holders))
        if groups not in self._answers:
            self._answers[groups] = self._compute(groups)
        return self._answers[groups]

    def _compute(self, groups: tuple[int, ...]) -> tuple[frozenset[int], int]:
        there = frozenset[tuple[str, str]]().union(*(self._tags[group] for group in groups))
        free = {group: size - groups.count(group) for group, size in self._size.items() if size > groups.count(group)}
        new = {group: len(self._tags[group] - there) for group in free}
        most = max(new.values(), default=0)
        best = frozenset(group for group, count in new.items() if count == most)
        return best, sum(free[group] for group in best)


class Numbers:
    """The tasks and clients of an application by number, and the order of Kafka's sets of them.

    Attributes:
        tasks: task of each number.
        number: number of each task.
        processes: client of each number.
        threads: threads of each client.
        all_threads: their sum.
        groups: the clients by tags.
        changelogged: tasks with a changelog in the order in which they get standbys.
    """

    def __init__(self, state: ApplicationState, *, is_former: bool, tag_keys: Sequence[str]) -> None:
        """Give numbers; `changelogged` is ascending if `is_former`, else in the order of a set of task descriptions."""
        self.tasks = tuple(state.all_tasks)
        self.number = {task: number for number, task in enumerate(self.tasks)}
        self.processes = tuple(state.states)
        self.threads = [client.num_processing_threads for client in state.states.values()]
        self.all_threads = sum(self.threads)
        self.groups = TagGroups(state, tag_keys)
        self._task_spread = [bucket_spread(task_hash(task)) for task in self.tasks]
        self._client_spread = [bucket_spread(process_hash(process)) for process in self.processes]
        self.changelogged = self._changelogged(state, is_former=is_former)

    def set_of_all_tasks(self) -> list[int]:
        """Return all tasks in the order of a set that is made from them."""
        buckets = table_size(len(self.tasks), at_once=True)
        return self._in_buckets(range(len(self.tasks)), buckets)

    def set_of_tasks(self, tasks: Iterable[int], size: int) -> list[int]:
        """Return tasks in the order of a set into which they were put in this order.

        Args:
            tasks: the tasks.
            size: number of tasks in the set, including those that the application does not have any more.
        """
        return self._in_buckets(tasks, table_size(size))

    def set_of_clients(self, clients: Sequence[int]) -> list[int]:
        """Return clients in the order of a set into which they were put in this order."""
        mask = table_size(len(clients)) - 1
        return sorted(clients, key=lambda client: self._client_spread[client] & mask)

    def bucket(self, client: int, buckets: int) -> int:
        """Return the bucket of a client in a set with that many, a power of two."""
        return self._client_spread[client] & (buckets - 1)

    def _in_buckets(self, tasks: Iterable[int], buckets: int) -> list[int]:
        return sorted(tasks, key=lambda task: self._task_spread[task] & (buckets - 1))

    def _changelogged(self, state: ApplicationState, *, is_former: bool) -> list[int]:
        if not state.assignment_configs.num_standby_replicas:
            return []
        infos = [info for info in state.all_tasks.values() if info.is_changelogged]
        if not is_former:
            mask = table_size(len(infos)) - 1
            infos.sort(key=lambda info: bucket_spread(info_hash(info)) & mask)
        return [self.number[info.id] for info in infos]


class LoadedClients:
    """Clients by tasks per thread; among equals in the order of a Java set, which depends on its number of buckets.

    Clients without tasks come first whatever their threads.

    Attributes:
        tasks: tasks of each client; only `give` changes them.
    """

    def __init__(self, numbers: Numbers, tasks: list[set[int]], buckets: int, *, prefers_threads: bool) -> None:
        """Sort the clients for a set of these buckets; with `prefers_threads` of equal ones that of more threads."""
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
