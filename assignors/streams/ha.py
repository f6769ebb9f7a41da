"""`HighAvailabilityTaskAssignor`: KIP-441's balance, warm-ups and probing rebalances, with KIP-925's racks.

The target depends only on clients, tasks and racks, not on the previous assignment: so probing rebalances end once the
warm-ups have caught up (KIP-925, 4: "the computed assignment must converge"). After the target is computed, lags decide
what runs where in the meantime: a task that racks move stays with its owner until the target client has caught up.

Among targets of equal cost Kafka's is taken, up to a size (`assignors.streams.kafka_racks`), and remaining ties follow
the order of Kafka's sets: any order is as good, and this one allows comparison with Kafka task by task. Standbys cost
least; `compatible=True` leaves them where Kafka's swaps of pairs do.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import LATEST_OFFSET, SharedLags
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.board import Board, balance_over_threads, deal_by_active_load, deal_in_turn
from samerack.assignors.streams.default_standby import deal_standbys
from samerack.assignors.streams.intern import held_by
from samerack.assignors.streams.java_sets import in_queue_order, tasks_in_java_order
from samerack.assignors.streams.optimize import tag_warnings
from samerack.assignors.streams.plugin import Outcome, Request, TaskAssignment
from samerack.assignors.streams.rack_steps import STATELESS, RackSteps, configured_costs, enabled_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from samerack.assignors.problem import BoolArray, Int32Array, Int64Array
    from samerack.assignors.streams.application import ApplicationState, KafkaStreamsState, ProcessId, TaskId
    from samerack.assignors.streams.board import TaskHolder

UNBOUNDED: Final = 2**63 - 1
"""The acceptable recovery lag with which every client counts as caught up (`Long.MAX_VALUE`)."""


class LagTable:
    """Who has caught up with a task, and who is closer than another (KIP-441).

    C clients and T tasks have numbers in ascending order. Of clients that share lags (`SharedLags`) only those that
    differ are in the arrays, and for each task the shared one.

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
        own = [lag.own if common and isinstance(lag, SharedLags) else lag for lag in lags]
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


# Converts the balanced target to a plan that can run now: KIP-441's task movements and warm-ups.
#
# A task whose target client is not caught up, while another client is closer, runs on that other client for now, and
# the target gets a warm-up. Any movement requires a probing rebalance.

_load: Final[Callable[[TaskHolder], float]] = attrgetter("load")


@dataclass(slots=True, kw_only=True)
class Warmups:
    """The number of warm-ups that may still be given, and those that were given: numbers of task and client."""

    left: int
    given: set[tuple[int, int]]

    def take(self) -> bool:
        """Use up one warm-up; return whether there was one left."""
        self.left -= 1
        return self.left >= 0


def move_actives(board: Board, lags: LagTable, warmups: Warmups) -> int:
    """Move tasks whose targets are not caught up to clients that are; return how many moved.

    A caught-up standby swaps with its active; otherwise the task goes to the least loaded caught-up client, or to the
    closest one, and its target gets a warm-up if any are left. Tasks with the fewest caught-up clients choose first.
    """
    holders, tasks = list(board.values()), list(lags.number)
    waiting = _worth_moving(board, lags, TaskType.ACTIVE, warmups)
    for number, at in waiting:
        task = tasks[number]
        caught_up = [holders[client] for client in lags.caught_up(number)]
        runner = _least_loaded([holder for holder in caught_up if task in holder.standby]) or _least_loaded(caught_up)
        if runner is None:
            closest = next(lags.closer(number, at), None)
            if closest is None:
                raise AssignmentError(f"task {task} has no client closer than {holders[at].process}; this cannot be")
            runner = holders[closest]
        if _run_elsewhere(holders[at], runner, task, warmups):
            warmups.given.add((number, at))
    return len(waiting)


def move_standbys(board: Board, lags: LagTable, warmups: Warmups) -> int:
    """Move standbys whose targets are not caught up, as `move_actives`; warm-ups stay. Returns how many moved.

    Of two standbys of a task, the one that is first in Kafka's queue moves first.
    """
    holders, tasks = list(board.values()), list(lags.number)
    moved = 0
    for number, at in _worth_moving(board, lags, TaskType.STANDBY, warmups):
        task = tasks[number]
        caught_up = (holders[client] for client in lags.caught_up(number))
        runner = _least_loaded([holder for holder in caught_up if not holder.has(task)])
        if runner is None:
            closer = (holders[client] for client in lags.closer(number, at))
            runner = next((holder for holder in closer if not holder.has(task)), None)
        if runner is None:
            continue
        runner.give(task, TaskType.STANDBY)
        if not warmups.take():
            holders[at].standby.remove(task)
        moved += 1
    return moved


def _worth_moving(board: Board, lags: LagTable, kind: TaskType, warmups: Warmups) -> list[tuple[int, int]]:
    """Return tasks to move with their targets, those with the fewest caught-up clients first, then by task."""
    task, client = held_by(board.values(), kind, lags.number)
    worth = lags.worth_moving(task, client)
    task, client = task[worth], client[worth]
    order = np.lexsort((task, client))
    pairs = zip(task[order].tolist(), client[order].tolist(), strict=True)
    return in_queue_order(
        [pair for pair in pairs if pair not in warmups.given], lambda movement: lags.urgency[movement[0]]
    )


def _least_loaded(holders: Sequence[TaskHolder]) -> TaskHolder | None:
    """Return the client with the least load, of equal ones the first; None without any."""
    if len(holders) < 2:  # as for most tasks
        return holders[0] if holders else None
    return min(holders, key=_load)


def _run_elsewhere(target: TaskHolder, runner: TaskHolder, task: TaskId, warmups: Warmups) -> bool:
    """Move an active to the client that runs it for now; return whether its target got a warm-up."""
    target.active.remove(task)
    if task in runner.standby:
        runner.standby.remove(task)
        target.give(task, TaskType.STANDBY)
        runner.give(task, TaskType.ACTIVE)
        return False
    runner.give(task, TaskType.ACTIVE)
    if not warmups.take():
        return False
    target.give(task, TaskType.STANDBY)
    return True


COSTS: Final = Costs(traffic=10, non_overlap=1)
"""Costs if none are configured: few reads across racks before few moves (KIP-925, 4.B.III)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighAvailabilityTaskAssignor:
    """KIP-924's plug-in around `high_availability`, for users' own assignors.

    Attributes:
        clock_ms: returns the current time in ms since 1970, from which the deadline of a probing rebalance is counted.
    """

    clock_ms: Callable[[], int]

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Compute the assignment (see `high_availability`).

        Raises:
            TaskAssignmentError: lags could not be computed.
        """
        return high_availability(Request(state=application_state, now_ms=self.clock_ms())).assignment


def high_availability(request: Request) -> Outcome:
    """Assign actives, standbys and warm-ups of an application (KIP-925, 3 and 4; KIP-441; KIP-708).

    1. Stateful tasks are dealt in turn, balanced over threads, and then moved to where they cost least.
    2. Standbys go to the least loaded clients, or apart by tags, are balanced, and then moved to where they cost least.
    3. Tasks whose targets are not caught up run on clients that are, with up to `max_warmup_replicas` warm-ups.
    4. Stateless tasks go to the clients with the fewest actives per thread, and are then moved by racks.

    While tasks are not on their targets the first client requests a probing rebalance after the configured interval.

    Args:
        request: the application, with a lag of every stateful task for every client.

    Raises:
        TaskAssignmentError: lags could not be computed.
        AssignmentError: a lag is missing, or a setting has an invalid value.
    """
    state = request.state
    clients = state.kafka_streams_states(compute_task_lags=True)
    configs = state.assignment_configs
    stateful = [task for task, info in state.all_tasks.items() if info.is_stateful]
    board = Board(state.states.values())
    costs = configured_costs(configs, COSTS)
    gates = enabled_together(state, None if request.compatible else costs)
    racks = RackSteps(state=state, gates=gates, compatible=request.compatible, kafkas_ties=True)

    deal_in_turn(board, stateful)
    balance_over_threads(board, TaskType.ACTIVE)
    racks.optimize_actives(board, stateful, costs)
    if configs.num_standby_replicas:
        _add_standbys(state, board)
        racks.optimize_standbys(board, costs, tags=True)

    warmups = Warmups(left=configs.max_warmup_replicas, given=set())
    lags = LagTable(clients, stateful, configs.acceptable_recovery_lag)
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
    """Return the assignments of all clients; the first client requests the follow-up rebalance."""
    first, *others = board.assignments().values()
    return TaskAssignment(assignment=(first.with_followup_rebalance(deadline), *others))


def _add_standbys(state: ApplicationState, board: Board) -> None:
    tagged = bool(state.assignment_configs.rack_aware_assignment_tags)
    late = tasks_in_java_order(state.all_tasks) if tagged else None
    given, _ = deal_standbys(state, board.values(), late_order=late)
    for holder, tasks in zip(board.values(), given, strict=True):
        holder.standby.update(tasks)
    balance_over_threads(board, TaskType.STANDBY, _same_tags if tagged else lambda *_: True)


def _same_tags(source: TaskHolder, target: TaskHolder) -> bool:
    """Return whether standbys may move from source to target whatever the tags of their other copies (KIP-708)."""
    return all(target.tags.get(key) == value for key, value in source.tags.items())
