"""Assigns tasks so that they stay where they were, as Kafka's sticky assignors do.

A client keeps its actives up to its quota; other actives go to clients that had a standby and are below their quota;
the rest, and standbys, go to clients that had the task unless these are crowded, else to the least loaded client that
has a task with which this one was not yet paired. Standbys may be kept apart by tags, unlike Kafka's. Tasks and clients
are in the order of Kafka's sets: no other order is better, and the number of actives of a client depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from samerack.assignors.streams.assignment import Assignments, TaskType
from samerack.assignors.streams.java_sets import table_size
from samerack.assignors.streams.sticky_numbers import ASCENDING, LoadedClients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

    from samerack.assignors.streams.application import TaskId
    from samerack.assignors.streams.board import Board
    from samerack.assignors.streams.sticky_numbers import Numbers


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
        self._give_to_least_loaded(left, ASCENDING if self.manners.is_former else table_size(clients))

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

    def _by_load(self, tasks: list[set[int]], buckets: int) -> LoadedClients:
        return LoadedClients(self._numbers, tasks, buckets, prefers_threads=self.manners.is_former)

    def _best(self, task: int, clients: LoadedClients, choice: _Choice) -> int:
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
