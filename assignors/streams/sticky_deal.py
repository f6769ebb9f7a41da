"""Assigns tasks so that they stay where they were, as Kafka's sticky assignors do.

A client keeps its actives up to its quota; other actives go to clients that had a standby and are below their quota;
the rest, and standbys, go to clients that had the task unless these are crowded, else to the least loaded client that
has a task with which this one was not yet paired. Standbys may be kept apart by tags, unlike Kafka's. Tasks and clients
are in the order of Kafka's sets: no other order is better, and the number of actives of a client depends on it.

Tasks and clients are small integers, in ascending order: names hash and compare too slowly here. Numbers and groups are
the same in all runs of an assignor, and are computed once; the clients by load change while tasks are dealt.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from samerack.assignors.streams.assignment import Assignments, TaskType
from samerack.assignors.streams.java_sets import bucket_spread, info_hash, process_hash, table_size, task_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from samerack.assignors.streams.application import ApplicationState, TaskId
    from samerack.assignors.streams.board import Board

_Fullness: TypeAlias = tuple[float, int]
_Entry: TypeAlias = tuple[float, int, int, int]

_ASCENDING: Final = 1
"""Buckets of a set whose order is that of the clients' numbers."""

_EMPTY: Final = 0.0, 0


class _TagGroups:
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
        self.groups = _TagGroups(state, tag_keys)
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


class _LoadedClients:
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
        self._orders: dict[int, list[_Entry]] = {}
        self._least = self._order(buckets)

    def fullness(self, client: int) -> _Fullness:
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

    def _order(self, buckets: int) -> list[_Entry]:
        if buckets not in self._orders:
            bucket = self._numbers.bucket
            self._orders[buckets] = sorted(
                (*fullness, bucket(client, buckets), client) for client, fullness in enumerate(self._fullness)
            )
        return self._orders[buckets]

    def _compute(self, client: int) -> _Fullness:
        if not self.tasks[client]:
            return _EMPTY
        threads = self._numbers.threads[client]
        return len(self.tasks[client]) / threads, -threads if self._prefers_threads else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """The variants of the sticky assignor.

    Attributes:
        must_preserve_active: actives stay whatever the balance.
        is_former: the assignor before KIP-924: of two clients with equal load it prefers the one with more threads,
            and clients and tasks with changelogs are in ascending order.
        tag_keys: each standby goes to a client that adds the most tags of these keys to its task (KIP-708); Kafka's
            sticky assignors ignore tags.
    """

    must_preserve_active: bool = False
    is_former: bool = False
    tag_keys: tuple[str, ...] = ()


class Deal:
    """The previous assignment and the actives dealt from it; standbys may be dealt several times, on several boards.

    Attributes:
        manners: the variant.
    """

    def __init__(self, numbers: Numbers, previous: Assignments, manners: Manners) -> None:
        """Deal the actives: every task goes to a client."""
        self.manners = manners
        self._numbers = numbers
        self._owner: dict[int, int] = {}
        self._standby: dict[int, list[int]] = {}
        self._owned = self._remember(previous)
        self._actives: list[set[int]] = [set() for _ in numbers.processes]
        self._deal_actives()
        self._dealt_with = {task: mine for mine in self._actives for task in mine}

    def _remember(self, previous: Assignments) -> int:
        """Store who had the tasks; return how many tasks had an owner, including those that no longer exist."""
        owned: set[TaskId] = set()
        for client, process in enumerate(self._numbers.processes):
            actives = previous[process].of_type(TaskType.ACTIVE)
            owned |= actives
            for task in sorted(actives):
                if task in self._numbers.number:
                    # if several clients claim it, the last one, as in Kafka
                    self._owner[self._numbers.number[task]] = client
            for task in previous[process].of_type(TaskType.STANDBY):
                if task in self._numbers.number:
                    self._standby.setdefault(self._numbers.number[task], []).append(client)
        return len(owned)

    def put_actives(self, board: Board) -> None:
        """Put the actives on an empty board."""
        for holder, mine in zip(board.values(), self._actives, strict=True):
            holder.active = {self._numbers.tasks[task] for task in mine}

    def _deal_actives(self) -> None:
        left = dict.fromkeys(self._numbers.set_of_all_tasks())
        self._return_to_owners(left)
        self._give_to_standbys(left)
        clients = len(self._numbers.processes)
        self._give_to_least_loaded(left, _ASCENDING if self.manners.is_former else table_size(clients))

    def _return_to_owners(self, left: dict[int, None]) -> None:
        for task in self._numbers.set_of_tasks(self._owner, self._owned):
            client = self._owner[task]
            if self.manners.must_preserve_active or self._is_below_quota(client):
                self._actives[client].add(task)
                del left[task]

    def _give_to_standbys(self, left: dict[int, None]) -> None:
        for task in list(left):
            had = self._numbers.set_of_clients(self._standby.get(task, ()))
            roomy = next(filter(self._is_below_quota, had), None)
            if roomy is not None:
                self._actives[roomy].add(task)
                del left[task]

    def _is_below_quota(self, client: int) -> bool:
        quota = len(self._numbers.tasks) // self._numbers.all_threads
        return len(self._actives[client]) < quota * self._numbers.threads[client]

    def _give_to_least_loaded(self, left: Iterable[int], buckets: int) -> None:
        clients = self._by_load(self._actives, buckets)
        choice = _Choice(buckets=buckets, near=frozenset(), may_have=lambda _: True)
        for task in sorted(left):
            clients.give(task, self._best(task, clients, choice))

    def deal_standbys(self, board: Board, count: int) -> None:
        """Give every task with a changelog that many standbys, if there are enough clients without the task.

        Args:
            board: has the actives, which may have moved since `put_actives`.
            count: standbys for each task.
        """
        actives = [{self._numbers.number[task] for task in holder.active} for holder in board.values()]
        owner = {task: client for client, mine in enumerate(actives) for task in mine}
        clients = self._by_load(actives, table_size(len(actives)))
        given: list[set[int]] = [set() for _ in actives]
        for task in self._numbers.changelogged:
            near = self._dealt_with[task] | given[owner[task]]
            holders = [owner[task]]
            while len(holders) <= count and (choice := self._standby_choice(holders, near)):
                client = self._best(task, clients, choice)
                clients.give(task, client)
                given[client].add(task)
                near |= clients.tasks[client]
                holders.append(client)
        for holder, mine in zip(board.values(), given, strict=True):
            holder.standby = {self._numbers.tasks[task] for task in mine}

    def _standby_choice(self, holders: list[int], near: set[int]) -> _Choice | None:
        """Return where one more standby may go, by tags furthest apart from the holders; None if nowhere."""
        groups, count = self._numbers.groups.furthest_apart(holders)
        group = self._numbers.groups.group
        if not count:
            return None
        return _Choice(
            buckets=table_size(count),
            near=near,
            may_have=lambda client: group[client] in groups and client not in holders,
        )

    def _by_load(self, tasks: list[set[int]], buckets: int) -> _LoadedClients:
        return _LoadedClients(self._numbers, tasks, buckets, prefers_threads=self.manners.is_former)

    def _best(self, task: int, clients: _LoadedClients, choice: _Choice) -> int:
        """Return the best client for the task.

        This is the one that had it active, else the least loaded that had a standby, unless crowded; else the least
        loaded.
        """
        owner = self._owner.get(task)
        if owner is not None and choice.may_have(owner) and not clients.is_crowded(owner):
            return owner
        standbys = [client for client in self._standby.get(task, ()) if choice.may_have(client)]
        if standbys:
            standbys.sort(key=lambda client: (self._numbers.bucket(client, choice.buckets), client))
            by_load = sorted(self._numbers.set_of_clients(standbys), key=clients.fullness)
            client = clients.first_beside_others(choice.near, by_load)
            if not clients.is_crowded(client):
                return client
        everybody = clients.ascending(choice.buckets)
        return clients.first_beside_others(choice.near, filter(choice.may_have, everybody))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The clients from which one is chosen for a task.

    Attributes:
        buckets: buckets of Kafka's set of these clients: its order decides between equals.
        near: tasks with which the task has shared a client.
        may_have: whether a client is among them; true for at least one.
    """

    buckets: int
    near: AbstractSet[int]
    may_have: Callable[[int], bool]
