"""The groups of the benchmark of leaders: a sample of Kafka's own grid, franz-go's sizes, usual and the largest groups.

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
from samerack.assignors.model import NOBODY, Int32Array, Problem
from samerack.cluster.view import NoRack, SettledCluster, SettledPartition
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.model import Subscription, from_runs
from samerack.protocol.sticky import encode_cooperative_sticky

if TYPE_CHECKING:
    from collections.abc import Iterator

RACKS: Final = ("a", "b", "c")
NODES: Final[dict[str | None, int]] = {rack: number for number, rack in enumerate((*RACKS, None))}
"""The broker in each rack, and one without."""
BUCKETS: Final = 5
GENERATION: Final = 7
SEED: Final = 54

History = Literal["fresh", "joined", "left"]
Subscriptions = Literal["equal", "buckets", "one extra", "halves"]
KAFKAS: Final[tuple[Subscriptions, ...]] = ("equal", "buckets")
FRANZS: Final[tuple[Subscriptions, ...]] = ("equal", "one extra")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The shape of a group.

    Attributes:
        members: how many.
        topics: how many.
        partitions: of each topic.
        subscriptions: all equal; five disjoint buckets; all equal plus one more member with one topic (franz-go's
            "imbalance"); or a random half of the topics, different for each member.
        racks: whether members and replicas have racks; one replica each, in turn.
        history: "fresh": no partition has an owner; "joined": the last member joins a group that has the plan without
            it; "left": one member has left a group that has the plan with it.
        replicas: replicas of each partition, in racks in turn.
    """

    members: int
    topics: int
    partitions: int
    subscriptions: Subscriptions
    racks: bool = True
    history: History = "fresh"
    replicas: int = 1

    @property
    def total(self) -> int:
        """Returns the number of partitions of all topics."""
        return self.topics * self.partitions


_FRESH_AND_JOINED: Final[tuple[History, ...]] = ("fresh", "joined")


def grid() -> Iterator[Cell]:
    """Yields the sample: corners and middle of the grid, all subscriptions, both histories; racks off in the middle."""
    for members in (100, 1_000, 10_000):
        sizes = [(ratio, topics) for ratio, topics in product((5, 50), (10, 1_000))]
        for ratio, topics in [(10, 100), *sizes]:
            each = max(1, members * ratio // topics)
            for subscriptions, history in product(KAFKAS, _FRESH_AND_JOINED):
                yield Cell(
                    members=members, topics=topics, partitions=each, subscriptions=subscriptions, history=history
                )
        yield Cell(members=members, topics=100, partitions=members // 10, subscriptions="equal", racks=False)


FRANZ: Final = tuple(
    Cell(members=members, topics=topics, partitions=partitions, subscriptions=subscriptions)
    for members, topics, partitions in ((800, 50, 800), (1_000, 50, 1_000), (2_000, 500, 2_000))
    for subscriptions in FRANZS
)
"""The sizes of franz-go's `BenchmarkJava`: small, medium, large, each also with "imbalance"."""

GREATEST: Final = (
    Cell(members=2_000, topics=1_000, partitions=1_000, subscriptions="equal", history="joined"),
    Cell(members=2_000, topics=1_000, partitions=1_000, subscriptions="buckets", history="joined"),
    Cell(members=2_000, topics=1_000, partitions=1_000, subscriptions="halves"),
    Cell(members=2_000, topics=1_000, partitions=1_000, subscriptions="halves", history="joined"),
)

USUAL: Final = tuple(
    Cell(members=members, topics=topics, partitions=total // topics, subscriptions="equal", history="left", replicas=2)
    for members, topics, total in (
        (30, 10, 1_000),
        (100, 100, 10_000),
        (1_000, 100, 100_000),
        (2_000, 1_000, 1_000_000),
    )
)
"""Groups of every size that a member has left."""

NEWEST: Final = (
    *(
        Cell(members=10_000, topics=100, partitions=1_000, subscriptions="equal", history=history, replicas=2)
        for history in _FRESH_AND_JOINED
    ),
    Cell(members=100, topics=160, partitions=1_000, subscriptions="equal", history="joined", replicas=2),
    Cell(members=500, topics=20_000, partitions=5, subscriptions="equal", history="joined", replicas=2),
)
"""The sizes of the field's newest work: many members, many partitions, and very many topics by a pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cell's group by names: the input of every rival.

    Attributes:
        topics: racks of the replicas of each partition, the leader's first.
        subscriptions: the distinct ones.
        subscription_of: index of each member's subscription.
        racks: rack of each member.
        owned: partitions of each topic that each member owns.
    """

    topics: dict[str, list[tuple[str | None, ...]]]
    subscriptions: list[tuple[str, ...]]
    subscription_of: list[int]
    racks: list[str | None]
    owned: list[dict[str, Int32Array]]

    def members(self) -> list[MemberInput]:
        """Returns the members as the assignors take them."""
        return [
            MemberInput(
                id=f"c{number:05}",
                topics=self.subscriptions[self.subscription_of[number]],
                rack=self.racks[number],
                owned=self.owned[number],
                generation=GENERATION if self.owned[number] else -1,
            )
            for number in range(len(self.subscription_of))
        ]

    def problem(self) -> Problem:
        """Returns the group as arrays."""
        return build_problem(topics=self.topics, members=self.members())

    def messages(self) -> list[tuple[str, bytes]]:
        """Returns member id and metadata of each member, as clients of Kafka's protocol send them in JoinGroup."""
        return [
            (
                member.id,
                encode_subscription(
                    Subscription(
                        topics=tuple(member.topics),
                        user_data=encode_cooperative_sticky(member.generation),
                        owned=from_runs(tuple(owned), tuple(owned.values())),
                        generation=member.generation,
                        rack=member.rack,
                    )
                ),
            )
            for member, owned in zip(self.members(), self.owned, strict=True)
        ]

    def question(self, messages: list[tuple[str, bytes]], runs: int) -> dict[str, Any]:
        """Returns the group as JSON values, as the peers in Java and Go read it."""
        return {
            "assignor": "cooperative-sticky",
            "brokers": [{"id": number, **({"rack": rack} if rack else {})} for rack, number in NODES.items()],
            "topics": {
                topic: [[NODES[rack] for rack in racks] for racks in rows] for topic, rows in self.topics.items()
            },
            "members": [{"id": member, "metadata": base64.b64encode(data).decode()} for member, data in messages],
            "repeat": runs,
        }

    def cluster(self) -> SettledCluster:
        """Returns the topics as the agent's watch knows them."""
        placed = {
            racks: SettledPartition(leader=NODES[racks[0]], replicas=tuple(NODES[rack] for rack in racks))
            for rows in self.topics.values()
            for racks in rows
        }
        return SettledCluster(
            brokers={number: rack or NoRack.UNSET for rack, number in NODES.items()},
            topics={topic: tuple(placed[racks] for racks in rows) for topic, rows in self.topics.items()},
        )


def make(cell: Cell) -> Group:
    """Returns the cell's group."""
    names = [f"t{number:04}" for number in range(cell.topics)]
    racks = RACKS if cell.racks else (None,)
    rows: list[tuple[str | None, ...]] = [
        tuple(racks[(number + replica) % len(racks)] for replica in range(cell.replicas))
        for number in range(cell.partitions)
    ]
    subscriptions, chosen = _subscriptions(cell, names)
    group = Group(
        topics=dict.fromkeys(names, rows),
        subscriptions=subscriptions,
        subscription_of=chosen,
        racks=[racks[number % len(racks)] for number in range(len(chosen))],
        owned=[{}] * len(chosen),
    )
    return {"fresh": lambda: group, "joined": lambda: _joined(group), "left": lambda: _left(group)}[cell.history]()


def _subscriptions(cell: Cell, names: list[str]) -> tuple[list[tuple[str, ...]], list[int]]:
    if cell.subscriptions == "buckets":
        size, each = -(-cell.topics // BUCKETS), -(-cell.members // BUCKETS)
        buckets = [tuple(names[first : first + size]) for first in range(0, cell.topics, size)]
        return buckets, [min(number // each, len(buckets) - 1) for number in range(cell.members)]
    if cell.subscriptions == "halves":
        wanted = np.random.default_rng(SEED).random((cell.members, cell.topics)) < 0.5
        return [tuple(np.array(names)[row].tolist()) for row in wanted], list(range(cell.members))
    if cell.subscriptions == "one extra":
        return [tuple(names), (names[0],)], [0] * cell.members + [1]
    return [tuple(names)], [0] * cell.members


def _joined(group: Group) -> Group:
    """Returns the group with its last member new: the others own the plan that they had without it."""
    before = replace(group, subscription_of=group.subscription_of[:-1], racks=group.racks[:-1], owned=group.owned[:-1])
    return replace(group, owned=[*_planned(before), {}])


def _left(group: Group) -> Group:
    """Returns the group without its last member, which owned a part of the plan."""
    return replace(
        group,
        subscription_of=group.subscription_of[:-1],
        racks=group.racks[:-1],
        owned=_planned(group)[:-1],
    )


def _planned(group: Group) -> list[dict[str, Int32Array]]:
    """Returns what each member gets by our plan."""
    problem = group.problem()
    owner = optimal.assign(problem)
    owned: list[dict[str, Int32Array]] = [{} for _ in group.subscription_of]
    order = np.argsort(owner, kind="stable")
    order = order[owner[order] != NOBODY]
    starts = np.flatnonzero(
        np.diff(owner[order].astype(np.int64) * len(problem.topics) + problem.topic_of[order], prepend=-1)
    )
    for run in np.split(order, starts[1:]):
        if len(run):
            owned[owner[run[0]]][problem.topics[problem.topic_of[run[0]]]] = problem.number_of[run]
    return owned
