"""The collapsed network compared with the full graph: every partition, every member, balance as a convex cost."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.optimal import assign
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Problem
from tests.unit.assignors import groups

RACKS = ("a", "b", "c", "d")


def group(seed: int) -> Problem:
    """About 40 partitions of 6 topics for 9 members: far too many plans for brute force."""
    dice = np.random.default_rng(seed)
    topics = {f"t{number}": int(dice.integers(0, 14)) for number in range(6)}
    racks = [*RACKS, None][: 4 + seed % 2]
    weighted = seed % 3 == 0
    members = []
    for number in range(9):
        wanted = [topic for topic in topics if seed % 4 == 0 or dice.random() < 0.5]
        owned = {topic: np.flatnonzero(dice.random(topics[topic]) < 0.2).tolist() for topic in wanted}
        members.append(
            MemberInput(
                id=f"m{number}",
                topics=tuple(wanted),
                rack=racks[int(dice.integers(len(racks)))],
                reads_any_replica=bool(dice.random() < 0.7),
                owned=owned,
                generation=int(dice.integers(3)),
            )
        )
    replicas = 1 + seed % 3
    return build_problem(
        topics={
            topic: [[racks[index] for index in dice.permutation(len(racks))[:replicas]] for _ in range(count)]
            for topic, count in topics.items()
        },
        members=members,
        weights={topic: dice.integers(1, 9, count).tolist() for topic, count in topics.items()} if weighted else None,
    )


def full_graph_cost(problem: Problem) -> tuple[int, int, int]:
    """The minimum (sum of squares, cross-rack weight, moves): the k-th partition of a member costs 2k - 1."""
    partitions, members = len(problem.topic_of), len(problem.members)
    per_square, per_weight = 10**9, 10**4
    graph: nx.MultiDiGraph[object] = nx.MultiDiGraph()
    read = groups.subscribes(problem)
    for partition in np.flatnonzero(read.any(axis=1)).tolist():
        graph.add_edge("source", partition, capacity=1, weight=0)
        for member in np.flatnonzero(read[partition]).tolist():
            only = np.full((1, partitions), NOBODY, np.int32)
            only[0, partition] = member
            crossing = int(groups.cross_rack_weights(problem, only)[0])
            moved = int(problem.owner[partition] not in (NOBODY, member))
            graph.add_edge(partition, f"m{member}", capacity=1, weight=crossing * per_weight + moved)
    for member in range(members):
        for load in range(partitions):
            graph.add_edge(f"m{member}", "sink", capacity=1, weight=(2 * load + 1) * per_square)
    total = int(read.any(axis=1).sum())
    graph.add_node("source", demand=-total)
    graph.add_node("sink", demand=total)
    cost, _ = nx.network_simplex(graph)
    return cost // per_square, cost % per_square // per_weight, cost % per_weight


@pytest.mark.parametrize("seed", range(12))
def test_optimum_is_that_of_the_full_graph(seed: int) -> None:
    """Both solvers on the collapsed network find the cost of the full graph, level by level."""
    problem = group(seed)
    expected = full_graph_cost(problem)
    for portable in (False, True):
        with groups.solver(portable=portable):
            assert groups.rank(evaluate(problem, assign(problem))) == expected
