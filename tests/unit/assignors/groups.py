"""Small random groups for hypothesis, and brute force over all their plans, written without the code under test."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import Enum
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st

from samerack.assignors import solvers
from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.problem import NOBODY, BoolArray, Cost, Int32Array, Int64Array, Problem

RACKS = ("a", "b", "c")


def solver(*, portable: bool) -> AbstractContextManager[object]:
    """In this block networkx solves if `portable`, as where OR-Tools is not installed; else OR-Tools does."""
    return patch.object(solvers, "min_cost_flow", return_value=None) if portable else nullcontext()


class RackConfig(Enum):
    """Which racks are known; results that do not depend on racks hold for all three, as in Kafka's own tests."""

    BROKERS_HAVE_NONE = "brokers have no racks"
    MEMBERS_HAVE_NONE = "members have no racks"
    BOTH_HAVE_RACKS = "brokers and members have racks"


def with_racks(config: RackConfig, problem: Problem) -> Problem:
    """The problem with racks as configured; if brokers have racks, every partition has a replica in every rack."""
    brokers = config is not RackConfig.BROKERS_HAVE_NONE
    members = config is not RackConfig.MEMBERS_HAVE_NONE
    ranks = np.arange(len(problem.members)) % len(RACKS)
    return replace(
        problem,
        racks=RACKS,
        replica_racks=np.full((len(problem.topic_of), len(RACKS)), brokers),
        leader_rack=np.full(len(problem.topic_of), 0 if brokers else NOBODY, np.int32),
        member_rack=(ranks if members else np.full(len(ranks), NOBODY)).astype(np.int32),
    )


def plain(topics: dict[str, int], members: dict[str, list[str]], owned: dict[str, dict[str, list[int]]]) -> Problem:
    """A group without racks: partition counts, subscriptions, owned partitions."""
    return build_problem(
        topics={topic: [[]] * count for topic, count in topics.items()},
        members=[
            MemberInput(id=member, topics=tuple(wanted), owned=owned.get(member, {}), generation=1)
            for member, wanted in members.items()
        ],
    )


@st.composite
def problems(draw: st.DrawFn, *, max_partitions: int = 6, max_members: int = 4) -> Problem:
    """Random groups: unequal subscriptions, missing racks, leader locality, weights, static members, owners."""
    counts = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(lambda some: sum(some) <= max_partitions))
    topics = {f"t{index}": count for index, count in enumerate(counts)}
    rack = st.sampled_from([*RACKS, None]) if draw(st.booleans()) else st.sampled_from(RACKS)
    replicas = st.lists(rack, max_size=3)
    weighted = draw(st.booleans())
    weights = {topic: [draw(st.integers(1, 3)) for _ in range(count)] for topic, count in topics.items()}
    return build_problem(
        topics={topic: [draw(replicas) for _ in range(count)] for topic, count in topics.items()},
        members=draw(_members(topics, max_members)),
        weights=weights if weighted else None,
    )


@st.composite
def _members(draw: st.DrawFn, topics: dict[str, int], at_most: int) -> list[MemberInput]:
    equal, leaders_too = draw(st.booleans()), draw(st.booleans())
    members = []
    for number in range(draw(st.integers(1, at_most))):
        wanted = tuple(topics) if equal else tuple(topic for topic in topics if draw(st.booleans()))
        owned = {topic: [p for p in range(topics[topic]) if draw(st.booleans())] for topic in wanted}
        members.append(
            MemberInput(
                id=f"m{number}",
                topics=wanted,
                rack=draw(st.sampled_from([*RACKS, None])),
                instance_id=draw(st.sampled_from([None, None, f"i{9 - number}"])),
                reads_any_replica=not leaders_too or draw(st.booleans()),
                owned=owned,
                generation=draw(st.integers(-1, 2)),
            )
        )
    return members


def subscribes(problem: Problem) -> BoolArray:
    """[P, M] true where the member subscribes to the partition's topic."""
    return problem.subscriptions[problem.subscription_of][:, problem.topic_of].T


def all_plans(problem: Problem) -> Int32Array:
    """[N, P] every way to give each partition to one of its subscribers."""
    choices = [np.flatnonzero(row) if row.any() else np.array([NOBODY]) for row in subscribes(problem)]
    grid = np.empty((*map(len, choices), len(choices)), np.int32)
    for partition, members in enumerate(choices):
        grid[..., partition] = np.expand_dims(members, tuple(range(1, len(choices) - partition)))
    return grid.reshape(-1, len(choices)) if choices else np.empty((1, 0), np.int32)


def loads(problem: Problem, plans: Int32Array) -> Int64Array:
    """[N, M] partitions of each member in each plan."""
    counts: Int64Array = (plans[:, :, np.newaxis] == np.arange(len(problem.members))).sum(axis=1)
    return counts


def cells(problem: Problem, plans: Int32Array) -> Int64Array:
    """[N, M, T] partitions of each topic that each member has in each plan."""
    owned = (plans[:, :, np.newaxis] == np.arange(len(problem.members))).astype(np.int64)
    of_topic = (problem.topic_of[:, np.newaxis] == np.arange(len(problem.topics))).astype(np.int64)
    counts: Int64Array = np.einsum("npm,pt->nmt", owned, of_topic)
    return counts


def cross_rack_weights(problem: Problem, plans: Int32Array) -> Int64Array:
    """[N] weight that each plan reads across racks, directly from the definition."""
    price = np.zeros((len(problem.topic_of), len(problem.members) + 1), np.int64)  # the last column is for NOBODY
    for partition, member in itertools.product(range(price.shape[0]), range(price.shape[1] - 1)):
        rack = problem.member_rack[member]
        serving = problem.leader_rack[partition] == rack
        if problem.reads_any_replica[member] and rack != NOBODY:
            serving = serving or problem.replica_racks[partition, rack]
        if rack != NOBODY and not serving:
            price[partition, member] = 1 if problem.weights is None else problem.weights[partition]
    sums: Int64Array = price[np.arange(len(price)), plans].sum(axis=1)
    return sums


def moves(problem: Problem, plans: Int32Array) -> Int64Array:
    """[N] partitions that each plan takes from a present owner."""
    counts: Int64Array = ((plans != problem.owner) & (problem.owner != NOBODY)).sum(axis=1)
    return counts


def minimum(*levels: Int64Array) -> tuple[int, ...]:
    """The lexicographically least row of the levels."""
    return min(zip(*(level.tolist() for level in levels), strict=True))


def rank(cost: Cost) -> tuple[int, int, int]:
    """The objective, the most important first."""
    return cost.sum_of_squares, cost.cross_rack_weight, cost.moved


def best_rank(problem: Problem) -> tuple[int, ...]:
    """The least objective of all plans."""
    plans = all_plans(problem)
    return minimum((loads(problem, plans) ** 2).sum(axis=1), cross_rack_weights(problem, plans), moves(problem, plans))
