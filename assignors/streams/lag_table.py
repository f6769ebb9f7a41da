"""The lags of all clients as arrays: who has caught up with a task, and who is closer than another (KIP-441).

Of clients that share lags (`SharedLags`) only those that differ are in the arrays, and for each task the shared one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.application import LATEST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from samerack.assignors.problem import BoolArray, Int32Array, Int64Array
    from samerack.assignors.streams.application import KafkaStreamsState, ProcessId, TaskId

UNBOUNDED: Final = 2**63 - 1
"""The acceptable recovery lag with which every client counts as caught up (`Long.MAX_VALUE`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLags(Mapping["TaskId", int]):
    """Lags by task.

    A thousand clients and ten thousand tasks have ten million lags, but a client has state of few tasks; of all others
    its lag is the sum of the end offsets, which is the same for every client.

    Attributes:
        own: lags that are the client's own; they have priority.
        common: lags of the tasks that the client does not name, the same mapping for all clients.
    """

    own: Mapping[TaskId, int]
    common: Mapping[TaskId, int]

    def __getitem__(self, task: TaskId) -> int:
        own = self.own.get(task)
        return self.common[task] if own is None else own

    def __iter__(self) -> Iterator[TaskId]:
        yield from self.common
        yield from (task for task in self.own if task not in self.common)

    def __len__(self) -> int:
        return len(self.common) + sum(task not in self.common for task in self.own)


class LagTable:
    """The lags of C clients for T tasks, both by their number in ascending order.

    Attributes:
        number: the number of each task.
        urgency: [T] sort key: tasks with the fewest caught-up clients first, then by task.
    """

    def __init__(
        self, clients: Mapping[ProcessId, KafkaStreamsState], tasks: Sequence[TaskId], acceptable: int
    ) -> None:
        """Read every lag once.

        Args:
            clients: all clients, ascending, with lags.
            tasks: the tasks that may move, ascending.
            acceptable: the lag up to which a client counts as caught up.

        Raises:
            AssignmentError: a client has no lag for one of the tasks, or a lag has more than 64 bits.
        """
        self.number = {task: number for number, task in enumerate(tasks)}
        self._clients = len(clients)
        self._acceptable = min(acceptable, UNBOUNDED)
        common = _common(clients)
        lags = [client.stateful_tasks_to_lag_sums() for client in clients.values()]
        own = [one.own if common and isinstance(one, SharedLags) else one for one in lags]
        try:
            self._task, self._client, self._lag = self._arrays(own)
            self._shared = np.fromiter(map(common.get, tasks, repeat(0)), np.int64, len(tasks))
        except OverflowError:
            raise AssignmentError("a lag has more than 64 bits; Kafka's offsets have not") from None
        self._begin = self._begins(self._task)
        sharing = len(clients) - np.diff(self._begin)
        for number in np.flatnonzero(sharing).tolist():
            if tasks[number] not in common:
                for client in clients.values():
                    client.lag_for(tasks[number])  # one of them has none
        self._least = np.where(sharing > 0, self._shared, UNBOUNDED)
        np.minimum.at(self._least, self._task, self._lag)
        is_caught_up = self._is_caught_up(self._lag)
        self._caught_up: list[int] = self._client[is_caught_up].tolist()
        self._caught_up_begin: list[int] = self._begins(self._task[is_caught_up]).tolist()
        others = (sharing > 0) & self._is_caught_up(self._shared)
        self._others_caught_up: list[bool] = others.tolist()
        caught_up = np.diff(self._caught_up_begin) + sharing * others
        self.urgency: list[int] = (caught_up * len(tasks) + np.arange(len(tasks))).tolist()

    def _begins(self, task: Int32Array) -> Int64Array:
        """Return [T + 1] where each task begins in an array that is sorted by task."""
        return np.searchsorted(task, np.arange(len(self.number) + 1))

    def _arrays(self, own: Sequence[Mapping[TaskId, int]]) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Return task, client and lag of each lag, by task and then by client."""
        sizes = [len(lags) for lags in own]
        task = np.fromiter(map(self.number.get, chain.from_iterable(own), repeat(-1)), np.int32, sum(sizes))
        lag = np.fromiter(chain.from_iterable(lags.values() for lags in own), np.int64, sum(sizes))
        client = np.repeat(np.arange(len(own), dtype=np.int32), sizes)
        order = np.argsort(task, kind="stable")[np.count_nonzero(task < 0) :]
        return task[order], client[order], lag[order]

    def _is_caught_up(self, lag: Int64Array) -> BoolArray:
        """Return whether clients with these lags count as caught up."""
        if self._acceptable == UNBOUNDED:
            return np.ones(len(lag), np.bool_)
        near: BoolArray = (lag == LATEST_OFFSET) | ((lag >= 0) & (lag <= self._acceptable))
        return near

    def caught_up(self, task: int) -> list[int]:
        """Return the clients, ascending, that ran the task or whose lag is acceptable (KIP-441)."""
        found = self._caught_up[self._caught_up_begin[task] : self._caught_up_begin[task + 1]]
        if not self._others_caught_up[task]:
            return found
        behind = set(self._named(task)[1]).difference(found)
        return [client for client in range(self._clients) if client not in behind]

    def worth_moving(self, task: Int32Array, client: Int32Array) -> BoolArray:
        """Return for each task whether its client is not caught up while another one is closer."""
        own = self._task * np.int64(self._clients) + self._client
        asked = task * np.int64(self._clients) + client
        at = np.searchsorted(own, asked)
        lag = self._shared[task]
        named = at < len(own)
        named[named] = own[at[named]] == asked[named]
        lag[named] = self._lag[at[named]]
        return ~self._is_caught_up(lag) & (self._least[task] < lag)

    def closer(self, task: int, target: int) -> Iterator[int]:
        """Yield the clients that are closer than the target, those with the least lag first, then ascending."""
        lags, clients = self._named(task)
        shared, own = int(self._shared[task]), dict(zip(clients, lags, strict=True))
        limit = own.get(target, shared), target
        named = sorted(zip(lags, clients, strict=True))
        less, more = bisect_left(named, (shared,)), bisect_left(named, (shared + 1,))
        sharing = ((shared, client) for client in range(self._clients) if own.get(client, shared) == shared)
        for place in chain(named[:less], sharing, named[more:]):
            if place >= limit:
                return
            yield place[1]

    def _named(self, task: int) -> tuple[list[int], list[int]]:
        """Return the lags of a task that are not shared, and their clients."""
        begin, end = self._begin[task], self._begin[task + 1]
        return self._lag[begin:end].tolist(), self._client[begin:end].tolist()


def _common(clients: Mapping[ProcessId, KafkaStreamsState]) -> Mapping[TaskId, int]:
    """Return the lags that all clients share; empty if they do not share the same."""
    commons = [client.lags.common for client in clients.values() if isinstance(client.lags, SharedLags)]
    is_shared = len(commons) == len(clients) and all(common is commons[0] for common in commons)
    return commons[0] if commons and is_shared else {}
