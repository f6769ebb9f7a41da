"""Standby placement of KIP-925 version 4 and of the rejected part of the accepted document (8.A), for comparison.

Version 4 counts 1 for each partition that is read across racks (`PER_PARTITION`). Its option I swaps two standbys
wherever that costs less (the text of the accepted 4.C.I is the same). Its option II and 8.A place one standby of each
task at a time by a flow: the first ones mainly outside the racks of their actives, the later ones mainly where they
read least. Clients keep their number of standbys, so each flow has a solution, which 8.A doubted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.arrays import combine, first_of_each
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import TaskId
from samerack.assignors.streams.assignment import Assignments, Plan, TaskType
from samerack.assignors.streams.intern import complete, intern_clients, moves_of, standbys_of
from samerack.assignors.streams.optimize import with_moved_standbys
from samerack.assignors.streams.standby import optimize_standby

if TYPE_CHECKING:
    from collections.abc import Callable

    from samerack.assignors.problem import BoolArray, Int32Array
    from samerack.assignors.streams.application import ApplicationState
    from samerack.assignors.streams.standby import Standbys

PER_PARTITION: Final = Costs(traffic=1, non_overlap=0)
"""KIP-925 version 4, "Design for rack aware assignment": one for each partition, whatever moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Costs of a standby on a client: per partition read across racks, per client with the task in the same rack."""

    traffic: int
    same_rack: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Weights of the first standby of each task (reliability) and of the later ones (traffic)."""

    first: Weights
    later: Weights


VERSION_4_OPTION_II: Final = Reliability(
    first=Weights(traffic=1, same_rack=1_000_000), later=Weights(traffic=1_000_000, same_rack=1)
)
"""KIP-925 version 4, "Prefer reliability and then find optimal cost": reliability always first, later traffic first."""

REJECTED: Final = Reliability(first=Weights(traffic=1, same_rack=10), later=Weights(traffic=10, same_rack=1))
"""KIP-925, 8.A: traffic weight 1 and same-rack weight 10, then more weight for traffic."""


def place_standbys(
    state: ApplicationState,
    assignments: Assignments,
    place: Callable[[Standbys], Int32Array],
) -> Plan:
    """Return the plan with all standbys placed by `place`.

    Args:
        state: the application; all clients and changelogs have racks.
        assignments: the current plan.
        place: one of the functions below, with its costs.
    """
    plan, clients = complete(state, assignments), intern_clients(state)
    held = (assignment.of_type(TaskType.STANDBY) for assignment in plan.values())
    scope = sorted(frozenset[TaskId]().union(*held))
    standbys = standbys_of(state, scope, plan.values(), clients)
    return with_moved_standbys(state, plan, moves_of(scope, standbys.task, standbys.client, place(standbys)))


def swap_greedily(standbys: Standbys, costs: Costs) -> Int32Array:
    """Return the client of every standby, [U], after one round of swaps (KIP-925, 4.C.I; version 4, option I).

    Every standby of every client is compared with every standby of every other client, and both are swapped at once if
    neither client then has a task twice and the total cost is smaller. Greedy: it may miss the least cost.

    Complexity: O(standbys²).
    """
    placed = standbys.client.copy()
    held = [set(np.flatnonzero(placed == client).tolist()) for client in range(len(standbys.group))]
    fixed = zip(standbys.fixed_client.tolist(), standbys.fixed_task.tolist(), strict=True)
    tasks = [set(standbys.task[list(mine)].tolist()) for mine in held]
    for client, task in fixed:
        tasks[client].add(task)
    price = _prices(standbys, costs)
    for client in range(len(held)):
        for one in sorted(held[client]):
            _swap_first(standbys, (client, one), (held, tasks), price)
    for client, mine in enumerate(held):
        placed[list(mine)] = client
    return placed


def _prices(standbys: Standbys, costs: Costs) -> list[list[int]]:
    """Return [U][C] the cost of each standby on each client."""
    clients = len(standbys.group)
    had = np.zeros((len(standbys.remote), clients), np.bool_)
    had[standbys.task, standbys.client] = True
    traffic = standbys.traffic(standbys.task[:, np.newaxis], standbys.group)
    prices: list[list[int]] = (traffic * costs.traffic + ~had[standbys.task] * costs.non_overlap).tolist()
    return prices


def _swap_first(
    standbys: Standbys, given: tuple[int, int], who: tuple[list[set[int]], list[set[int]]], price: list[list[int]]
) -> None:
    """Swap one standby of a client with the first one of another client for which that costs less."""
    (client, one), (held, tasks) = given, who
    task = int(standbys.task[one])
    for other in range(len(held)):
        if other == client or task in tasks[other]:
            continue
        for two in sorted(held[other]):
            theirs = int(standbys.task[two])
            if theirs in tasks[client]:
                continue
            if price[one][other] + price[two][client] < price[one][client] + price[two][other]:
                held[client].symmetric_difference_update((one, two))
                held[other].symmetric_difference_update((one, two))
                tasks[client].symmetric_difference_update((task, theirs))
                tasks[other].symmetric_difference_update((task, theirs))
                return


def prefer_reliability(standbys: Standbys, reliability: Reliability) -> Int32Array:
    """Return the client of every standby, [U]: one flow for the r-th standbys of all tasks, in ascending order of r.

    A client costs its traffic and a weight for every client in its rack that already has the task.
    """
    rank = np.arange(len(standbys.task)) - np.searchsorted(standbys.task, standbys.task)
    placed = standbys.client.copy()
    for turn in range(int(rank.max(initial=-1)) + 1):
        weights = reliability.later if turn else reliability.first
        placed[rank == turn] = optimize_standby(
            _round(standbys, placed, rank == turn, rank < turn, weights), PER_PARTITION
        )
    return placed


def _round(
    standbys: Standbys, placed: Int32Array, movable: BoolArray, settled: BoolArray, weights: Weights
) -> Standbys:
    """Return the problem of placing the movable standbys, with costs of traffic and of clients that have the task."""
    racks = standbys.remotes.shape[1]
    near = np.zeros((len(standbys.remote), racks), np.int64)
    for task, client in (
        (standbys.fixed_task, standbys.fixed_client),
        (standbys.task[settled], placed[settled]),
    ):
        np.add.at(near, (task, standbys.rack[standbys.group[client]]), 1)
    row, rows = standbys.remote, len(standbys.remotes)
    for column in near.T:
        row, rows = combine(row, rows, column, int(column.max(initial=0)) + 1)
    some = first_of_each(row, rows)
    return replace(
        standbys,
        task=standbys.task[movable],
        client=placed[movable],
        stays=standbys.stays[movable],
        seats=np.bincount(placed[movable], minlength=len(standbys.group)),
        remote=row,
        remotes=standbys.remotes[standbys.remote[some]] * weights.traffic + near[some] * weights.same_rack,
        fixed_task=np.concatenate([standbys.fixed_task, standbys.task[~movable]]),
        fixed_client=np.concatenate([standbys.fixed_client, placed[~movable]]),
    )
