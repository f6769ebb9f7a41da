"""The groups that are measured: arrays from a seeded generator, and the assignor of each.

To add a scenario, change only this module.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.consumer import optimal
from samerack.assignors.consumer import range as range_assignor
from samerack.assignors.model import NOBODY, Int32Array, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

SEED: Final = 881
"""Named after KIP-881; any other seed gives the same times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A group's size: `subscriptions` distinct ones, each of about half of the topics where there are several."""

    partitions: int = 1_000_000
    members: int = 2_000
    topics: int = 100
    racks: int = 3
    replication: int = 2
    subscriptions: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A group and its assignor.

    Attributes:
        name: Key in the results.
        about: State of the group before the plan, for the page.
        shape: Its size.
        prepare: Makes the problem.
        assign: What is measured.
    """

    name: str
    about: str
    shape: Shape
    prepare: Callable[[Shape], Problem]
    assign: Callable[[Problem], Int32Array] = optimal.assign


def fresh(shape: Shape) -> Problem:
    """Returns a new group: no partition has an owner; racks of replicas and members are random."""
    dice = np.random.default_rng(SEED)
    order = np.argsort(dice.random((shape.partitions, shape.racks), np.float32), axis=1)[:, : shape.replication]
    replica_racks = np.zeros((shape.partitions, shape.racks), np.bool_)
    np.put_along_axis(replica_racks, order, values=True, axis=1)
    per_topic = shape.partitions // shape.topics
    if shape.subscriptions == 1:
        subscriptions = np.ones((1, shape.topics), np.bool_)
    else:
        subscriptions = dice.random((shape.subscriptions, shape.topics)) < 0.5
    return Problem(
        topics=tuple(f"topic-{number:05}" for number in range(shape.topics)),
        topic_of=np.repeat(np.arange(shape.topics, dtype=np.int32), per_topic),
        number_of=np.tile(np.arange(per_topic, dtype=np.int32), shape.topics),
        racks=tuple(f"rack-{number}" for number in range(shape.racks)),
        replica_racks=replica_racks,
        leader_rack=order[:, 0].astype(np.int32),
        weights=None,
        members=tuple(f"consumer-{number:06}" for number in range(shape.members)),
        instance_ids=(None,) * shape.members,
        member_rack=dice.integers(0, shape.racks, shape.members).astype(np.int32),
        reads_any_replica=np.ones(shape.members, np.bool_),
        subscription_of=(np.arange(shape.members) % shape.subscriptions).astype(np.int32),
        subscriptions=subscriptions,
        owner=np.full(shape.partitions, NOBODY, np.int32),
    )


def settled(shape: Shape) -> Problem:
    """Returns a group that owns the optimal plan."""
    problem = fresh(shape)
    return replace(problem, owner=optimal.assign(problem))


def left(shape: Shape) -> Problem:
    """Returns a settled group without its member number 7."""
    problem, gone = settled(shape), 7
    owner = np.where(problem.owner == gone, NOBODY, problem.owner - (problem.owner > gone)).astype(np.int32)
    return replace(
        problem,
        members=problem.members[:gone] + problem.members[gone + 1 :],
        instance_ids=problem.instance_ids[1:],
        member_rack=np.delete(problem.member_rack, gone),
        reads_any_replica=problem.reads_any_replica[1:],
        subscription_of=np.delete(problem.subscription_of, gone),
        owner=owner,
    )


def scattered(shape: Shape) -> Problem:
    """Returns a group whose partitions have random owners: every member owns partitions of every kind."""
    problem = fresh(shape)
    owner = np.random.default_rng(SEED + 1).integers(0, shape.members, shape.partitions).astype(np.int32)
    allowed = problem.subscriptions[problem.subscription_of[owner], problem.topic_of]
    return replace(problem, owner=np.where(allowed, owner, NOBODY).astype(np.int32))


def weighted(shape: Shape) -> Problem:
    """Returns a scattered group whose partitions have weights of 1 to 1,000,000, most of them different."""
    dice = np.random.default_rng(SEED + 2)
    return replace(scattered(shape), weights=dice.integers(1, 1_000_001, shape.partitions))


def _together(problem: Problem) -> Int32Array:
    return optimal.assign(problem, optimal.Options(keep_copartitioned=True))


LARGE: Final = Shape()
MANY_RACKS: Final = Shape(racks=8, replication=3)
MANY_MEMBERS: Final = Shape(members=10_000)
SOME_SUBSCRIPTIONS: Final = Shape(subscriptions=20)
ALL_DIFFERENT: Final = Shape(subscriptions=2_000, topics=1_000)
SMALL: Final = Shape(partitions=100_000, members=1_000)
USUAL: Final = Shape(partitions=1_000, members=30, topics=10)

SCENARIOS: Final = (
    Scenario(name="usual-left", about="a member left", shape=USUAL, prepare=left),
    Scenario(name="settled", about="owns the optimum", shape=LARGE, prepare=settled),
    Scenario(name="left", about="a member left", shape=LARGE, prepare=left),
    Scenario(name="scattered", about="owns partitions at random", shape=LARGE, prepare=scattered),
    Scenario(name="fresh", about="owns nothing", shape=LARGE, prepare=fresh),
    Scenario(name="racks", about="owns partitions at random", shape=MANY_RACKS, prepare=scattered),
    Scenario(name="members", about="owns partitions at random", shape=MANY_MEMBERS, prepare=scattered),
    Scenario(name="subscriptions-left", about="a member left", shape=SOME_SUBSCRIPTIONS, prepare=left),
    Scenario(name="subscriptions", about="owns partitions at random", shape=SOME_SUBSCRIPTIONS, prepare=scattered),
    Scenario(name="different-left", about="a member left", shape=ALL_DIFFERENT, prepare=left),
    Scenario(name="different", about="owns partitions at random", shape=ALL_DIFFERENT, prepare=scattered),
    Scenario(name="weights", about="owns partitions at random, weights differ", shape=SMALL, prepare=weighted),
    Scenario(
        name="together", about="co-partitioned topics kept together", shape=LARGE, prepare=fresh, assign=_together
    ),
    Scenario(name="range", about="Kafka's range", shape=LARGE, prepare=fresh, assign=range_assignor.assign),
)
