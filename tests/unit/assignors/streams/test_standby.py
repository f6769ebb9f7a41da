"""Standbys at minimum cost: compared with the full graph by networkx, and with brute force for tags."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest

from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.standby import Standbys, cost_of, optimize_standby
from samerack.assignors.streams.tags import Tagged, optimize_tagged, unrestrained

if TYPE_CHECKING:
    from samerack.assignors.problem import Int32Array

COSTS = [Costs(traffic=10, non_overlap=1), Costs(traffic=1, non_overlap=10), Costs(traffic=1, non_overlap=0)]


def random_standbys(seed: int, *, tasks: int, clients: int, limit: int, racks: int = 3) -> tuple[Standbys, list[int]]:
    """Up to `limit` standbys of each task, on any client but its active's, and the clients of the actives."""
    dice = np.random.default_rng(seed)
    active = dice.integers(0, clients, tasks)
    places = []
    for task in range(tasks):
        others = [client for client in range(clients) if client != active[task]]
        count = int(dice.integers(0, min(limit, len(others)) + 1))
        places += [(task, int(client)) for client in dice.choice(others, count, replace=False)]
    pairs = np.array(sorted(places), np.int32).reshape(-1, 2)
    groups = min(clients, racks + 1)
    return unrestrained(
        task=pairs[:, 0],
        client=pairs[:, 1],
        remote=dice.integers(0, 4, tasks).astype(np.int32),
        remotes=dice.integers(0, 3, (4, racks)),
        group=np.arange(clients, dtype=np.int32) % groups,
        rack=dice.integers(0, racks, groups).astype(np.int32),
        fixed_task=np.arange(tasks, dtype=np.int32),
        fixed_client=active.astype(np.int32),
    ), active.tolist()


def check(standbys: Standbys, placed: Int32Array) -> None:
    """Every client has as many standbys as before, and no task twice."""
    clients = len(standbys.group)
    assert np.array_equal(np.bincount(placed, minlength=clients), np.bincount(standbys.client, minlength=clients))
    at = list(zip(standbys.task.tolist(), placed.tolist(), strict=True))
    at += zip(standbys.fixed_task.tolist(), standbys.fixed_client.tolist(), strict=True)
    assert len(set(at)) == len(at)


def min_cost(standbys: Standbys, costs: Costs) -> int:
    """The minimum cost on the graph of all tasks and clients."""
    graph: nx.DiGraph[Any] = nx.DiGraph()
    had = set(zip(standbys.task.tolist(), standbys.client.tolist(), strict=True))
    fixed = set(zip(standbys.fixed_task.tolist(), standbys.fixed_client.tolist(), strict=True))
    for client, count in enumerate(standbys.seats.tolist()):
        graph.add_node(("client", client), demand=count)
    for task, count in enumerate(np.bincount(standbys.task, minlength=len(standbys.remote)).tolist()):
        graph.add_node(("task", task), demand=-count)
        for client, group in enumerate(standbys.group.tolist()):
            if (task, client) not in fixed:
                remote = int(standbys.remotes[standbys.remote[task], standbys.rack[group]])
                weight = remote * costs.traffic + ((task, client) not in had) * costs.non_overlap
                graph.add_edge(("task", task), ("client", client), capacity=1, weight=weight)
    return int(nx.network_simplex(graph)[0])


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_standbys_cost_as_little_as_on_the_full_graph(costs: Costs, limit: int) -> None:
    """The pooled flow and its repairs find the optimum of the graph of all tasks and clients."""
    for seed in range(25):
        standbys, _ = random_standbys(seed, tasks=1 + seed % 13, clients=2 + seed % 6, limit=limit)
        placed = optimize_standby(standbys, costs)
        check(standbys, placed)
        assert cost_of(standbys, costs, placed) == min_cost(standbys, costs), seed


def tagged(seed: int, *, limit: int, keys: int) -> tuple[Tagged, list[frozenset[tuple[str, str]]], list[int]]:
    """A small case, the tags of each client, and the clients of the actives."""
    standbys, active = random_standbys(seed, tasks=4, clients=5, limit=limit, racks=2)
    dice = np.random.default_rng(seed)
    tags = [frozenset((f"k{key}", f"v{dice.integers(0, 3)}") for key in range(keys)) for _ in range(len(standbys.rack))]
    return Tagged(standbys=standbys, tags=tuple(tags)), [tags[group] for group in standbys.group.tolist()], active


def best_with_tags(standbys: Standbys, costs: Costs, tags: list[frozenset[tuple[str, str]]], active: list[int]) -> int:
    """The minimum cost of all placements that keep counts and tags, by dynamic programming over clients' counts."""
    clients = len(tags)
    reached = {(0,) * clients: 0}
    for task, home in enumerate(active):
        had = standbys.client[standbys.task == task].tolist()
        min_values = len(tags[home].union(*(tags[client] for client in had)))
        following: dict[tuple[int, ...], int] = {}
        for places in combinations([client for client in range(clients) if client != home], len(had)):
            if len(tags[home].union(*(tags[client] for client in places))) < min_values:
                continue
            racks = standbys.rack[standbys.group[list(places)]]
            cost = int(standbys.remotes[standbys.remote[task], racks].sum()) * costs.traffic
            cost += len(set(places) - set(had)) * costs.non_overlap
            for counts, before in reached.items():
                after = tuple(count + (client in places) for client, count in enumerate(counts))
                following[after] = min(following.get(after, before + cost), before + cost)
        reached = following
    return reached[tuple(standbys.seats.tolist())]


@pytest.mark.parametrize("keys", [1, 2])
def test_tags_hold_and_one_standby_per_task_is_exact(keys: int) -> None:
    """With one standby per task the cost is the minimum of all placements that keep the tags."""
    for seed in range(40):
        case, tags, active = tagged(seed, limit=1, keys=keys)
        placed = optimize_tagged(case, COSTS[0])
        check(case.standbys, placed)
        assert cost_of(case.standbys, COSTS[0], placed) == best_with_tags(case.standbys, COSTS[0], tags, active)


def test_tags_hold_with_several_standbys_per_task() -> None:
    """With several standbys per task tags hold, and no placement that keeps them costs less."""
    exact = 0
    for seed in range(40):
        case, tags, active = tagged(seed, limit=3, keys=1 + seed % 2)
        placed = optimize_tagged(case, COSTS[0])
        check(case.standbys, placed)
        for task, home in enumerate(active):
            here = case.standbys.task == task
            before = tags[home].union(*(tags[client] for client in case.standbys.client[here]))
            after = tags[home].union(*(tags[client] for client in placed[here]))
            assert len(after) >= len(before)
        cost = cost_of(case.standbys, COSTS[0], placed)
        assert cost <= cost_of(case.standbys, COSTS[0], case.standbys.client)
        exact += cost == best_with_tags(case.standbys, COSTS[0], tags, active)
    assert exact == 40


def test_several_standbys_beyond_the_network_are_placed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one key has too many tasks and clients for its network, turns reach the optimum in at least 38 of 40 cases."""
    monkeypatch.setattr("samerack.assignors.streams.tags.MAX_ARCS", 0)
    exact = 0
    for seed in range(40):
        case, tags, active = tagged(seed, limit=3, keys=1)
        placed = optimize_tagged(case, COSTS[0])
        check(case.standbys, placed)
        exact += cost_of(case.standbys, COSTS[0], placed) == best_with_tags(case.standbys, COSTS[0], tags, active)
    assert exact >= 38
