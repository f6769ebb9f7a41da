"""Actives at minimum cost: brute force on small cases, networkx on medium ones, KIP-925's limits and examples."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from samerack.assignors.arrays import count_rows
from samerack.assignors.streams.active import ActiveTasks, Costs, limits, optimize_active
from tests.unit.assignors.groups import solver

if TYPE_CHECKING:
    from samerack.assignors.problem import Int32Array, Int64Array


def random_tasks(seed: int, *, tasks: int, clients: int, racks: int = 3) -> ActiveTasks:
    """Random tasks with up to two partitions on random clients."""
    dice = np.random.default_rng(seed)
    remote, remotes = count_rows([dice.integers(0, 3, tasks) for _ in range(racks)])
    return ActiveTasks(
        subtopology=np.sort(dice.integers(0, 3, tasks)).astype(np.int32),
        remote=remote,
        remotes=remotes,
        rack=dice.integers(0, racks, clients).astype(np.int32),
        client=dice.integers(0, clients, tasks).astype(np.int32),
    )


def cost(tasks: ActiveTasks, costs: Costs, client: Int32Array) -> tuple[int, int]:
    """The objective of a placement, computed independently."""
    remote = tasks.remotes[tasks.remote, tasks.rack[client]].sum()
    moved = (client != tasks.client).sum()
    return int(remote) * costs.traffic + int(moved) * costs.non_overlap, int(moved)


def shares(tasks: ActiveTasks, *, as_java: bool = False) -> Int64Array:
    """The most tasks of each subtopology on each client, [G, C]."""
    own, size = np.bincount(tasks.client, minlength=len(tasks.rack)), np.bincount(tasks.subtopology)
    return limits(own, size[:, np.newaxis], len(tasks.client), as_java=as_java)


def fits(tasks: ActiveTasks, client: Int32Array, *, balance: bool) -> bool:
    """Whether a placement keeps every client's task count and, with `balance`, the shares."""
    clients = len(tasks.rack)
    if not np.array_equal(np.bincount(client, minlength=clients), np.bincount(tasks.client, minlength=clients)):
        return False
    counts = np.zeros((int(tasks.subtopology.max()) + 1, clients), np.int64)
    np.add.at(counts, (tasks.subtopology, client), 1)
    return not balance or bool((counts <= shares(tasks)).all())


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize(
    "costs", [Costs(traffic=10, non_overlap=1), Costs(traffic=1, non_overlap=10), Costs(traffic=1, non_overlap=0)]
)
def test_actives_cost_as_little_as_brute_force_finds(costs: Costs, *, balance: bool) -> None:
    """On small cases no placement with the same counts costs less, and none of equal cost moves fewer tasks."""
    for seed in range(12):
        tasks = random_tasks(seed, tasks=6, clients=3)
        found = optimize_active(tasks, costs, balance=balance)
        assert fits(tasks, found, balance=balance)
        placements = set(permutations(tasks.client.tolist()))
        arrays = (np.array(placement, np.int32) for placement in placements)
        best = min(cost(tasks, costs, client) for client in arrays if fits(tasks, client, balance=balance))
        assert cost(tasks, costs, found) == best


@pytest.mark.parametrize("balance", [False, True])
def test_both_solvers_find_the_same_cost(*, balance: bool) -> None:
    """On medium cases networkx finds the same cost as OR-Tools."""
    costs = Costs(traffic=10, non_overlap=1)
    for seed in range(4):
        tasks = random_tasks(seed, tasks=60, clients=7)
        fast = optimize_active(tasks, costs, balance=balance)
        with solver(portable=True):
            slow = optimize_active(tasks, costs, balance=balance)
        assert cost(tasks, costs, fast) == cost(tasks, costs, slow)


def test_no_tasks_are_no_problem() -> None:
    """Without tasks nothing is placed."""
    assert len(optimize_active(random_tasks(0, tasks=0, clients=2), Costs(traffic=1, non_overlap=1), balance=True)) == 0


def two_by_two(remotes: list[list[int]], client: list[int]) -> ActiveTasks:
    """Tasks t1 and t2 on clients c1 and c2, each client in a rack of its own."""
    return ActiveTasks(
        subtopology=np.zeros(2, np.int32),
        remote=np.arange(2, dtype=np.int32),
        remotes=np.array(remotes),
        rack=np.arange(2, dtype=np.int32),
        client=np.array(client, np.int32),
    )


@pytest.mark.parametrize("document", ["KIP-925, 4.A.I", "KIP-925 version 4, Algorithm"])
def test_kip_925_two_tasks_two_clients(document: str) -> None:
    """KIP-925, 4.A.I (and version 4, "Algorithm"): t1 and t2 go to c1 and c2 at a cost of 2, by turning one cycle."""
    tasks = two_by_two([[1, 3], [4, 1]], [1, 0])
    found = optimize_active(tasks, Costs(traffic=1, non_overlap=0), balance=False)
    assert (found.tolist(), cost(tasks, Costs(traffic=1, non_overlap=0), found)[0]) == ([0, 1], 2), document


def six_tasks() -> ActiveTasks:
    """KIP-925, 4.B.II: C1, C2, C3 with 1, 2 and 3 threads have 1, 2 and 3 of the 6 tasks of S1 and S2."""
    return ActiveTasks(
        subtopology=np.array([0, 0, 0, 1, 1, 1], np.int32),
        remote=np.arange(6, dtype=np.int32),
        remotes=np.random.default_rng(1).integers(0, 4, (6, 3)),
        rack=np.arange(3, dtype=np.int32),
        client=np.array([0, 1, 1, 2, 2, 2], np.int32),
    )


@pytest.mark.parametrize("as_java", [False, True])
def test_kip_925_limits_of_a_balanced_subtopology(*, as_java: bool) -> None:
    """KIP-925, 4.B.II (and version 4, "Example"): of each subtopology C1, C2 and C3 may get 1, 1 and 2 tasks."""
    assert shares(six_tasks(), as_java=as_java).tolist() == [[1, 1, 2], [1, 1, 2]]


def test_kip_925_a_solution_of_the_balanced_example() -> None:
    """KIP-925, 4.B.II: {s1_1}, {s1_2, s2_1}, {s1_3, s2_2, s2_3} meets all limits; our result costs no more."""
    tasks = six_tasks()
    example = np.array([0, 1, 2, 1, 2, 2], np.int32)
    costs = Costs(traffic=1, non_overlap=0)
    found = optimize_active(tasks, costs, balance=True)
    assert fits(tasks, example, balance=True)
    assert fits(tasks, found, balance=True)
    assert cost(tasks, costs, found) <= cost(tasks, costs, example)


def test_kip_925_shares_always_leave_a_solution() -> None:
    """KIP-925, 4.B.II asks whether a solution always exists: it does, for all task counts."""
    for seed in range(30):
        tasks = random_tasks(seed, tasks=3 + seed, clients=1 + seed % 7)
        assert fits(tasks, optimize_active(tasks, Costs(traffic=1, non_overlap=1), balance=True), balance=True)


def test_kip_925_weights_decide_between_traffic_and_overlap() -> None:
    """KIP-925, 4.B.III: tasks move at traffic 10 to non-overlap 1, stay at 1 to 10, and move at non-overlap 0."""
    tasks = two_by_two([[0, 1], [1, 0]], [1, 0])
    assert optimize_active(tasks, Costs(traffic=10, non_overlap=1), balance=False).tolist() == [0, 1]
    assert optimize_active(tasks, Costs(traffic=1, non_overlap=10), balance=False).tolist() == [1, 0]
    assert optimize_active(tasks, Costs(traffic=1, non_overlap=0), balance=False).tolist() == [0, 1]


def test_a_million_units_of_cost_do_not_overflow() -> None:
    """Sums of costs near 2^31 do not overflow."""
    tasks = random_tasks(3, tasks=2000, clients=9)
    costs = Costs(traffic=2**31 - 1, non_overlap=2**31 - 1)
    found = optimize_active(tasks, costs, balance=False)
    assert cost(tasks, costs, found) <= cost(tasks, costs, tasks.client)
