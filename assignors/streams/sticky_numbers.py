"""An application as small integers, for `assignors.streams.sticky_deal`: names hash and compare too slowly there.

Tasks and clients are numbered in ascending order. Everything here is the same in all runs of an assignor, and is
computed once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from samerack.assignors.streams.java_sets import bucket_spread, info_hash, process_hash, table_size, task_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from samerack.assignors.streams.model import ApplicationState


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
        client: number of each client.
        threads: threads of each client.
        all_threads: their sum.
        groups: the clients by tags.
        changelogged: tasks with a changelog in the order in which they get standbys.
    """

    def __init__(self, state: ApplicationState, *, is_former: bool, tag_keys: Sequence[str]) -> None:
        """Give numbers to the tasks and clients.

        Args:
            state: the application.
            is_former: `changelogged` is ascending, else in the order of a set of task descriptions.
            tag_keys: keys of the tags by which clients are grouped.
        """
        self.tasks = tuple(state.all_tasks)
        self.number = {task: number for number, task in enumerate(self.tasks)}
        self.processes = tuple(state.states)
        self.client = {process: number for number, process in enumerate(self.processes)}
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
