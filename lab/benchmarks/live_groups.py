"""The groups of `lab.benchmarks.live`: a sample of Kafka's own grid, franz-go's sizes, usual and the largest groups.

Kafka's `ClientSideAssignorBenchmark` crosses members, partitions per member, topics, racks, equal or five disjoint
subscriptions, and a fresh group or one that a member joins.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer import optimal
from samerack.assignors.problem import NOBODY, Int32Array, Problem
from samerack.cluster.view import NoRack, SettledCluster, SettledPartition
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.sticky import encode_cooperative_sticky
from samerack.protocol.values import Subscription, from_flat

if TYPE_CHECKING:
    from collections.abc import Iterator

RACKS: Final = ("a", "b", "c")
_NONE: Final = np.empty(0, np.int32)
_NODES: Final[dict[str | None, int]] = {rack: number for number, rack in enumerate((*RACKS, None))}
"""The broker in each rack, and one without."""
_BUCKETS: Final = 5
_GENERATION: Final = 7
_SEED: Final = 54

History = Literal["fresh", "joined", "left"]
Subscriptions = Literal["equal", "buckets", "one extra", "halves"]
_HISTORIES: Final[tuple[History, ...]] = ("fresh", "joined")
_KAFKAS: Final[tuple[Subscriptions, ...]] = ("equal", "buckets")
_FRANZS: Final[tuple[Subscriptions, ...]] = ("equal", "one extra")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The shape of a group.

    Subscriptions are all equal; five disjoint buckets; all equal plus one more member with one topic (franz-go's
    "imbalance"); or a random half of the topics, different for each member. In a fresh group no partition has an owner;
    "joined": the last member joins a group that has the plan without it; "left": one has left that had it with it.
    """

    members: int
    topics: int
    partitions: int  # of each topic
    subscriptions: Subscriptions = "equal"
    racks: bool = True  # whether members and replicas have racks
    history: History = "fresh"
    replicas: int = 1  # of each partition, in racks in turn

    @property
    def total(self) -> int:
        """Returns the number of partitions of all topics."""
        return self.topics * self.partitions


def cells() -> list[Cell]:
    """Return all shapes, smallest first."""
    return sorted(dict.fromkeys(_cells()), key=lambda cell: (cell.total, cell.members))


def _cells() -> Iterator[Cell]:
    for members, topics, total in (
        *((30, 10, 1_000), (100, 100, 10_000)),
        *((1_000, 100, 100_000), (2_000, 1_000, 1_000_000)),
    ):
        yield Cell(members=members, topics=topics, partitions=total // topics, history="left", replicas=2)
    for members in (100, 1_000, 10_000):  # corners and middle of Kafka's grid; racks are off in the middle
        for ratio, topics in ((10, 100), *product((5, 50), (10, 1_000))):
            each = max(1, members * ratio // topics)
            for kind, history in product(_KAFKAS, _HISTORIES):
                yield Cell(members=members, topics=topics, partitions=each, subscriptions=kind, history=history)
        yield Cell(members=members, topics=100, partitions=members // 10, racks=False)
    for members, topics, partitions in ((800, 50, 800), (1_000, 50, 1_000), (2_000, 500, 2_000)):
        for kind in _FRANZS:  # of franz-go's `BenchmarkJava`
            yield Cell(members=members, topics=topics, partitions=partitions, subscriptions=kind)
    for kind, history in (("equal", "joined"), ("buckets", "joined"), ("halves", "fresh"), ("halves", "joined")):
        yield Cell(members=2_000, topics=1_000, partitions=1_000, subscriptions=kind, history=history)
    for history in _HISTORIES:
        yield Cell(members=10_000, topics=100, partitions=1_000, history=history, replicas=2)
    yield Cell(members=100, topics=160, partitions=1_000, history="joined", replicas=2)
    yield Cell(members=500, topics=20_000, partitions=5, history="joined", replicas=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cell's group by names, the input of every competitor; the lists have an entry for each member."""

    topics: dict[str, list[tuple[str | None, ...]]]  # racks of the replicas of each partition, the leader's first
    subscriptions: list[tuple[str, ...]]
    racks: list[str | None]
    owned: list[dict[str, Int32Array]]

    def members(self) -> list[MemberInput]:
        """Return the members as the assignors take them."""
        each = zip(self.subscriptions, self.racks, self.owned, strict=True)
        return [
            MemberInput(
                id=f"c{number:05}", topics=topics, rack=rack, owned=owned, generation=_GENERATION if owned else -1
            )
            for number, (topics, rack, owned) in enumerate(each)
        ]

    def problem(self) -> Problem:
        """Return the group as arrays."""
        return build_problem(topics=self.topics, members=self.members())

    def messages(self) -> list[tuple[str, bytes]]:
        """Return member id and metadata of each member, as clients of Kafka's protocol send them in JoinGroup."""
        return [
            (
                member.id,
                encode_subscription(
                    Subscription(
                        topics=tuple(member.topics),
                        user_data=encode_cooperative_sticky(member.generation),
                        owned=from_flat(
                            tuple(owned), list(map(len, owned.values())), np.concatenate([_NONE, *owned.values()])
                        ),
                        generation=member.generation,
                        rack=member.rack,
                    )
                ),
            )
            for member, owned in zip(self.members(), self.owned, strict=True)
        ]

    def question(self, messages: list[tuple[str, bytes]], runs: int) -> dict[str, Any]:
        """Return the group as JSON values, as the peers in Java and Go read it."""
        return {
            "assignor": "cooperative-sticky",
            "brokers": [{"id": number, **({"rack": rack} if rack else {})} for rack, number in _NODES.items()],
            "topics": {
                topic: [[_NODES[rack] for rack in racks] for racks in rows] for topic, rows in self.topics.items()
            },
            "members": [{"id": member, "metadata": base64.b64encode(data).decode()} for member, data in messages],
            "repeat": runs,
        }

    def cluster(self) -> SettledCluster:
        """Return the topics as the agent's watch knows them."""
        placed = {
            racks: SettledPartition(leader=_NODES[racks[0]], replicas=tuple(_NODES[rack] for rack in racks))
            for rows in self.topics.values()
            for racks in rows
        }
        return SettledCluster(
            brokers={number: rack or NoRack.UNSET for rack, number in _NODES.items()},
            topics={topic: tuple(placed[racks] for racks in rows) for topic, rows in self.topics.items()},
        )


def make(cell: Cell) -> Group:
    """Return the cell's group."""
    names = [f"t{number:04}" for number in range(cell.topics)]
    racks = RACKS if cell.racks else (None,)
    rows: list[tuple[str | None, ...]] = [
        tuple(racks[(number + replica) % len(racks)] for replica in range(cell.replicas))
        for number in range(cell.partitions)
    ]
    subscriptions = _subscriptions(cell, names)
    group = Group(
        topics=dict.fromkeys(names, rows),
        subscriptions=subscriptions,
        racks=[racks[number % len(racks)] for number in range(len(subscriptions))],
        owned=[{}] * len(subscriptions),
    )
    if cell.history == "joined":
        return replace(group, owned=[*_planned(_without_last(group)), {}])
    return _without_last(replace(group, owned=_planned(group))) if cell.history == "left" else group


def _subscriptions(cell: Cell, names: list[str]) -> list[tuple[str, ...]]:
    if cell.subscriptions == "buckets":
        size, each = -(-cell.topics // _BUCKETS), -(-cell.members // _BUCKETS)
        buckets = [tuple(names[first : first + size]) for first in range(0, cell.topics, size)]
        return [buckets[min(number // each, len(buckets) - 1)] for number in range(cell.members)]
    if cell.subscriptions == "halves":
        wanted = np.random.default_rng(_SEED).random((cell.members, cell.topics)) < 0.5
        return [tuple(np.array(names)[row].tolist()) for row in wanted]
    extra = [(names[0],)] if cell.subscriptions == "one extra" else []
    return [tuple(names)] * cell.members + extra


def _without_last(group: Group) -> Group:
    return replace(group, subscriptions=group.subscriptions[:-1], racks=group.racks[:-1], owned=group.owned[:-1])


def _planned(group: Group) -> list[dict[str, Int32Array]]:
    """Return what each member gets by our plan."""
    problem = group.problem()
    return owned_by(problem, optimal.assign(problem))


def owned_by(problem: Problem, owner: Int32Array) -> list[dict[str, Int32Array]]:
    """Return the partitions of each topic that each member has by a plan."""
    owned: list[dict[str, Int32Array]] = [{} for _ in problem.members]
    order = np.argsort(owner, kind="stable")
    order = order[owner[order] != NOBODY]
    starts = np.flatnonzero(
        np.diff(owner[order].astype(np.int64) * len(problem.topics) + problem.topic_of[order], prepend=-1)
    )
    for run in np.split(order, starts[1:]):
        if len(run):
            owned[owner[run[0]]][problem.topics[problem.topic_of[run[0]]]] = problem.number_of[run]
    return owned
